// Package payment keeps what was paid for orders.
package payment

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// ErrNotFound says that no payment matches.
var ErrNotFound = errors.New("payment not found")

// Payment is one row of the table payments; Cents below zero are a refund.
type Payment struct {
	ID      int64
	OrderID int64
	Cents   int64
	PaidAt  time.Time
}

const columns = `id, order_id, cents, paid_at`

// Record stores a payment and returns its id.
func Record(ctx context.Context, db *sql.DB, orderID, cents int64) (int64, error) {
	var id int64
	err := db.QueryRowContext(ctx,
		`INSERT INTO payments (order_id, cents) VALUES ($1, $2) RETURNING id`, orderID, cents,
	).Scan(&id)
	if err != nil {
		return 0, fmt.Errorf("record payment for order %d: %w", orderID, err)
	}
	return id, nil
}

// ByID returns the payment with this id, or ErrNotFound.
func ByID(ctx context.Context, db *sql.DB, id int64) (*Payment, error) {
	var p Payment
	err := db.QueryRowContext(ctx,
		`SELECT `+columns+` FROM payments WHERE id = $1`, id,
	).Scan(&p.ID, &p.OrderID, &p.Cents, &p.PaidAt)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read payment %d: %w", id, err)
	}
	return &p, nil
}

// OfOrder returns the payments for an order, the oldest first.
func OfOrder(ctx context.Context, db *sql.DB, orderID int64) ([]Payment, error) {
	return list(db.QueryContext(ctx,
		`SELECT `+columns+` FROM payments WHERE order_id = $1 ORDER BY id`, orderID))
}

// Since returns the payments made at or after a moment, the oldest first.
func Since(ctx context.Context, db *sql.DB, moment time.Time) ([]Payment, error) {
	return list(db.QueryContext(ctx,
		`SELECT `+columns+` FROM payments WHERE paid_at >= $1 ORDER BY paid_at`, moment))
}

// Refund stores the reverse of a payment and returns the refund's id.
func Refund(ctx context.Context, db *sql.DB, id int64) (int64, error) {
	p, err := ByID(ctx, db, id)
	if err != nil {
		return 0, err
	}
	if p.Cents <= 0 {
		return 0, fmt.Errorf("payment %d is a refund itself", id)
	}
	return Record(ctx, db, p.OrderID, -p.Cents)
}

func list(rows *sql.Rows, err error) ([]Payment, error) {
	if err != nil {
		return nil, fmt.Errorf("list payments: %w", err)
	}
	defer rows.Close()
	var payments []Payment
	for rows.Next() {
		var p Payment
		if err := rows.Scan(&p.ID, &p.OrderID, &p.Cents, &p.PaidAt); err != nil {
			return nil, fmt.Errorf("list payments: %w", err)
		}
		payments = append(payments, p)
	}
	return payments, rows.Err()
}
