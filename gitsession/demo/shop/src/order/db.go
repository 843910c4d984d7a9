// Package order keeps what users order.
package order

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// ErrNotFound says that no order matches.
var ErrNotFound = errors.New("order not found")

// Line is one article of an order; prices are in cents.
type Line struct {
	Article  string
	Quantity int
	Price    int64
}

// Order is one row of the table orders.
type Order struct {
	ID     int64
	UserID int64
	Status string
}

// Place stores an order and its lines, all or nothing, and returns its id.
func Place(ctx context.Context, db *sql.DB, userID int64, lines []Line) (int64, error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, fmt.Errorf("place order: %w", err)
	}
	defer tx.Rollback()
	var id int64
	err = tx.QueryRowContext(ctx,
		`INSERT INTO orders (user_id, status) VALUES ($1, 'placed') RETURNING id`, userID,
	).Scan(&id)
	if err != nil {
		return 0, fmt.Errorf("place order: %w", err)
	}
	for _, line := range lines {
		_, err = tx.ExecContext(ctx,
			`INSERT INTO order_lines (order_id, article, quantity, price) VALUES ($1, $2, $3, $4)`,
			id, line.Article, line.Quantity, line.Price,
		)
		if err != nil {
			return 0, fmt.Errorf("place order, article %s: %w", line.Article, err)
		}
	}
	return id, tx.Commit()
}

// ByID returns the order with this id, or ErrNotFound.
func ByID(ctx context.Context, db *sql.DB, id int64) (*Order, error) {
	var o Order
	err := db.QueryRowContext(ctx,
		`SELECT id, user_id, status FROM orders WHERE id = $1`, id,
	).Scan(&o.ID, &o.UserID, &o.Status)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read order %d: %w", id, err)
	}
	return &o, nil
}

// OfUser returns a user's orders, the newest first.
func OfUser(ctx context.Context, db *sql.DB, userID int64) ([]Order, error) {
	rows, err := db.QueryContext(ctx,
		`SELECT id, user_id, status FROM orders WHERE user_id = $1 ORDER BY id DESC`, userID)
	if err != nil {
		return nil, fmt.Errorf("orders of user %d: %w", userID, err)
	}
	defer rows.Close()
	var orders []Order
	for rows.Next() {
		var o Order
		if err := rows.Scan(&o.ID, &o.UserID, &o.Status); err != nil {
			return nil, fmt.Errorf("orders of user %d: %w", userID, err)
		}
		orders = append(orders, o)
	}
	return orders, rows.Err()
}

// Total returns the price of an order in cents.
func Total(ctx context.Context, db *sql.DB, id int64) (int64, error) {
	if _, err := ByID(ctx, db, id); err != nil {
		return 0, err
	}
	var cents int64
	err := db.QueryRowContext(ctx,
		`SELECT COALESCE(SUM(quantity * price), 0) FROM order_lines WHERE order_id = $1`, id,
	).Scan(&cents)
	return cents, err
}

// Cancel marks an order as cancelled; one that is shipped stays as it is.
func Cancel(ctx context.Context, db *sql.DB, id int64) error {
	o, err := ByID(ctx, db, id)
	if err != nil {
		return err
	}
	if o.Status == "shipped" {
		return fmt.Errorf("order %d is shipped already", id)
	}
	_, err = db.ExecContext(ctx, `UPDATE orders SET status = 'cancelled' WHERE id = $1`, id)
	return err
}
