// Package user keeps the shop's users.
package user

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// ErrNotFound says that no user matches.
var ErrNotFound = errors.New("user not found")

// User is one row of the table users.
type User struct {
	ID        int64
	Email     string
	Name      string
	CreatedAt time.Time
}

// Create adds a user and returns it with its id.
func Create(ctx context.Context, db *sql.DB, email, name string) (*User, error) {
	u := &User{Email: email, Name: name}
	err := db.QueryRowContext(ctx,
		`INSERT INTO users (email, name) VALUES ($1, $2) RETURNING id, created_at`,
		email, name,
	).Scan(&u.ID, &u.CreatedAt)
	if err != nil {
		return nil, fmt.Errorf("create user %s: %w", email, err)
	}
	return u, nil
}

// ByID returns the user with this id, or ErrNotFound.
func ByID(ctx context.Context, db *sql.DB, id int64) (*User, error) {
	row := db.QueryRowContext(ctx, `SELECT id, email, name, created_at FROM users WHERE id = $1`, id)
	return scan(row)
}

// ByEmail returns the user with this address, or ErrNotFound.
func ByEmail(ctx context.Context, db *sql.DB, email string) (*User, error) {
	row := db.QueryRowContext(ctx, `SELECT id, email, name, created_at FROM users WHERE email = $1`, email)
	return scan(row)
}

// Rename changes a user's name, or returns ErrNotFound.
func Rename(ctx context.Context, db *sql.DB, id int64, name string) error {
	result, err := db.ExecContext(ctx, `UPDATE users SET name = $2 WHERE id = $1`, id, name)
	if err != nil {
		return fmt.Errorf("rename user %d: %w", id, err)
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return ErrNotFound
	}
	return nil
}

// Delete removes a user; one that is not there is no error.
func Delete(ctx context.Context, db *sql.DB, id int64) error {
	if _, err := db.ExecContext(ctx, `DELETE FROM users WHERE id = $1`, id); err != nil {
		return fmt.Errorf("delete user %d: %w", id, err)
	}
	return nil
}

func scan(row *sql.Row) (*User, error) {
	var u User
	err := row.Scan(&u.ID, &u.Email, &u.Name, &u.CreatedAt)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read user: %w", err)
	}
	return &u, nil
}
