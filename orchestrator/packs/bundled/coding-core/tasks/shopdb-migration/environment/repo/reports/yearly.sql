-- One line per month of @YEAR@.
SELECT substr(o.placed, 4, 2) AS month,
       count(*) AS orders,
       sum(l.quantity * l.unit_price) AS revenue
FROM orders o
JOIN order_lines l ON l.order_id = o.id
WHERE substr(o.placed, 7, 4) = '@YEAR@'
GROUP BY month
ORDER BY month;
