/* Counts the file-system calls that change something, over a process and all it starts, and lets the N-th fail.
 *
 * Preloaded (LD_PRELOAD) with FAULT_FILE naming a file that all processes share, struct shared below.  Only calls
 * below the directory in it count: opening for writing, write, rename, link, symlink, unlink, mkdir, rmdir, truncate,
 * fsync.  A process with PINABLE_SESSION_ID in its environment is an agent's, and left alone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { COUNT, KILL, ONCE, FROM_THEN_ON, CUT };

struct shared {
    long calls;      /* so far */
    long target;     /* which one fails, from 1 */
    long mode;       /* COUNT: none; KILL: everybody dies; CUT: the file system goes first; ONCE, FROM_THEN_ON: fails with error */
    long error;      /* errno */
    long dead;       /* KILL has struck */
    long leader;     /* process to be killed with whoever makes the call */
    char root[4096];
    char call[64];   /* which call the target was */
    char path[4096]; /* and on what */
};

static struct shared *shared;
static __thread int inside;

/* Called for each process that starts, and by a forked one that begins to count. */
void fault_arm(void) {
    const char *file = getenv("FAULT_FILE");
    int fd;
    shared = NULL;
    if (!file || getenv("PINABLE_SESSION_ID")) return;
    inside = 1;
    fd = open(file, O_RDWR | O_CLOEXEC);
    if (fd >= 0) {
        void *place = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (place != MAP_FAILED) shared = place;
        close(fd);
    }
    inside = 0;
}

__attribute__((constructor)) static void start(void) { fault_arm(); }

static void die(void) {
    shared->dead = 1;
    if (shared->leader) kill((pid_t)shared->leader, SIGKILL);
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* The file system forgets what it has not brought to the disk yet, and its journal with it (EXT4_IOC_SHUTDOWN). */
static void cut_power(void) {
    unsigned no_log_flush = 2;
    inside = 1;
    int fd = open(shared->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        ioctl(fd, _IOR('X', 125, unsigned), &no_log_flush);
        close(fd);
    }
    inside = 0;
}

/* What a full disk, or one that became read-only, lets pass all the same. */
static int spared(const char *call) {
    if (shared->error == ENOSPC) return strstr("unlink rmdir fsync", call) != NULL;
    if (shared->error == EROFS) return strcmp(call, "fsync") == 0;
    return 0;
}

/* Whether the call is to fail; errno is set then. */
static int fails(const char *call, int dir, const char *path) {
    char full[4096], link[64];
    ssize_t size = 0;
    long number;
    if (!shared || inside) return 0;
    inside = 1;
    full[0] = 0;
    if (!path || path[0] != '/') {
        if (dir == AT_FDCWD) snprintf(link, sizeof link, "/proc/self/cwd");
        else snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
        size = readlink(link, full, sizeof full - 1);
        full[size > 0 ? size : 0] = 0;
    }
    if (path) {
        size = (ssize_t)strlen(full);
        snprintf(full + size, sizeof full - (size_t)size, "%s%s", size ? "/" : "", path);
    }
    inside = 0;
    if (strncmp(full, shared->root, strlen(shared->root)) != 0) return 0;
    if (shared->dead) die();
    number = __atomic_add_fetch(&shared->calls, 1, __ATOMIC_SEQ_CST);
    if (shared->mode == COUNT || number < shared->target) return 0;
    if (number == shared->target) {
        snprintf(shared->call, sizeof shared->call, "%s", call);
        snprintf(shared->path, sizeof shared->path, "%s", full);
    }
    if (shared->mode == CUT) cut_power();
    if (shared->mode == KILL || shared->mode == CUT) die();
    if ((number > shared->target && shared->mode == ONCE) || spared(call)) return 0;
    errno = (int)shared->error;
    return 1;
}

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) *(void **)&real = dlsym(RTLD_NEXT, name)

static mode_t mode_of(int flags, va_list rest) {
    return flags & (O_CREAT | __O_TMPFILE) ? (mode_t)va_arg(rest, int) : 0;
}
static int writes(int flags) { return (flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC); }

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        va_list rest; mode_t mode; \
        REAL(int, #name, const char *, int, ...); \
        va_start(rest, flags); mode = mode_of(flags, rest); va_end(rest); \
        if (writes(flags) && fails("open", AT_FDCWD, path)) return -1; \
        return real(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
    int name(int dir, const char *path, int flags, ...) { \
        va_list rest; mode_t mode; \
        REAL(int, #name, int, const char *, int, ...); \
        va_start(rest, flags); mode = mode_of(flags, rest); va_end(rest); \
        if (writes(flags) && fails("open", dir, path)) return -1; \
        return real(dir, path, flags, mode); \
    }
OPENAT(openat)
OPENAT(openat64)

int creat(const char *path, mode_t mode) { return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return open64(path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

#define FOPEN(name) \
    FILE *name(const char *path, const char *mode) { \
        REAL(FILE *, #name, const char *, const char *); \
        if (strpbrk(mode, "wa+") && fails("open", AT_FDCWD, path)) return NULL; \
        return real(path, mode); \
    }
FOPEN(fopen)
FOPEN(fopen64)

ssize_t write(int fd, const void *data, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    return fails("write", fd, NULL) ? -1 : real(fd, data, size);
}
ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    return fails("write", fd, NULL) ? -1 : real(fd, parts, count);
}
#define PWRITE(name, offset_type) \
    ssize_t name(int fd, const void *data, size_t size, offset_type offset) { \
        REAL(ssize_t, #name, int, const void *, size_t, offset_type); \
        return fails("write", fd, NULL) ? -1 : real(fd, data, size, offset); \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

#define ON_FD(name) \
    int name(int fd) { \
        REAL(int, #name, int); \
        return fails("fsync", fd, NULL) ? -1 : real(fd); \
    }
ON_FD(fsync)
ON_FD(fdatasync)

#define TRUNCATE(name, offset_type) \
    int name(int fd, offset_type size) { \
        REAL(int, #name, int, offset_type); \
        return fails("truncate", fd, NULL) ? -1 : real(fd, size); \
    }
TRUNCATE(ftruncate, off_t)
TRUNCATE(ftruncate64, off64_t)

#define ON_PATH(name) \
    int name(const char *path) { \
        REAL(int, #name, const char *); \
        return fails(#name, AT_FDCWD, path) ? -1 : real(path); \
    }
ON_PATH(unlink)
ON_PATH(rmdir)

int unlinkat(int dir, const char *path, int flags) {
    REAL(int, "unlinkat", int, const char *, int);
    return fails(flags & AT_REMOVEDIR ? "rmdir" : "unlink", dir, path) ? -1 : real(dir, path, flags);
}
int remove(const char *path) {
    REAL(int, "remove", const char *);
    return fails("unlink", AT_FDCWD, path) ? -1 : real(path);
}
int mkdir(const char *path, mode_t mode) {
    REAL(int, "mkdir", const char *, mode_t);
    return fails("mkdir", AT_FDCWD, path) ? -1 : real(path, mode);
}
int mkdirat(int dir, const char *path, mode_t mode) {
    REAL(int, "mkdirat", int, const char *, mode_t);
    return fails("mkdir", dir, path) ? -1 : real(dir, path, mode);
}

#define TWO_PATHS(name) \
    int name(const char *from, const char *to) { \
        REAL(int, #name, const char *, const char *); \
        return fails(#name, AT_FDCWD, to) ? -1 : real(from, to); \
    }
TWO_PATHS(rename)
TWO_PATHS(link)
TWO_PATHS(symlink)

int renameat(int from_dir, const char *from, int to_dir, const char *to) {
    REAL(int, "renameat", int, const char *, int, const char *);
    return fails("rename", to_dir, to) ? -1 : real(from_dir, from, to_dir, to);
}
int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags) {
    REAL(int, "renameat2", int, const char *, int, const char *, unsigned);
    return fails("rename", to_dir, to) ? -1 : real(from_dir, from, to_dir, to, flags);
}
int linkat(int from_dir, const char *from, int to_dir, const char *to, int flags) {
    REAL(int, "linkat", int, const char *, int, const char *, int);
    return fails("link", to_dir, to) ? -1 : real(from_dir, from, to_dir, to, flags);
}
int symlinkat(const char *target, int dir, const char *path) {
    REAL(int, "symlinkat", const char *, int, const char *);
    return fails("symlink", dir, path) ? -1 : real(target, dir, path);
}
