CREATE TABLE products (
    id INTEGER PRIMARY KEY,
    sku TEXT,
    title TEXT,
    price REAL
);

CREATE TABLE orders (
    id INTEGER PRIMARY KEY,
    customer_id INTEGER,
    placed TEXT
);

CREATE TABLE order_lines (
    id INTEGER PRIMARY KEY,
    order_id INTEGER,
    product_id INTEGER,
    quantity INTEGER,
    unit_price REAL
);
