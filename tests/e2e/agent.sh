#!/bin/sh
# An agent made of a shell script: it edits, adds, deletes, renames and chmods files of whatever project it
# stands in, and tells its checkpoints.  Every step looks at the files first, so it can be run again after
# a kill at any moment.
set -eu
pause() { sleep 0.03; }

echo "::phase::analysis::Reading $(find . -name '*.py' -not -path './.git/*' | wc -l) files..."
echo "::done::Found the modules to change"
echo "::checkpoint::Saved the analysis"

echo "::phase::implementation::Rewriting..."
for file in $(find . -name '*.py' -not -path './.git/*' -not -path './gen/*' | LC_ALL=C sort | head -n 12); do
    grep -q '^# reviewed$' "$file" || printf '# reviewed\n' >> "$file"
    pause
done
echo "::tokens::in=1200,out=300"
echo "::checkpoint::Marked the modules"

mkdir -p notes/deep
[ -e notes/deep/plan.txt ] || { printf 'plan\n' > notes/deep/.plan.new; mv notes/deep/.plan.new notes/deep/plan.txt; }
pause
[ ! -e README.md ] || mv README.md notes/README.md
pause
rm -f LICENSE
pause
[ -e setup.py ] && chmod 755 setup.py
[ -L link-to-plan ] || ln -s notes/deep/plan.txt link-to-plan
pause
echo "::checkpoint::Moved the documents"

for n in 1 2 3 4 5 6 7 8; do
    [ -e "gen/module_$n.py" ] || { mkdir -p gen; printf 'VALUE = %s\n' "$n" > "gen/.new"; mv gen/.new "gen/module_$n.py"; }
    pause
done
sed 's/VALUE/NUMBER/' gen/module_1.py > gen/.new && mv gen/.new gen/module_1.py
echo "::tokens::in=800,out=200"
echo "::checkpoint::Generated modules"

echo "::phase::review::Checking..."
pause
echo "::done::No critical issues found"
