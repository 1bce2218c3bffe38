ALTER TABLE orders ADD COLUMN status TEXT DEFAULT 'open';
CREATE INDEX orders_by_customer ON orders (customer_id);
