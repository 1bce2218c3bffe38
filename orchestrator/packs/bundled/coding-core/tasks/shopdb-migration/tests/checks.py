"""Checks of shopdb-migration: databases of version 3 made here, migrated by the workspace's tool, then queried."""

import csv
import json
import shlex

from harness import check, equal, expect, hidden, once, put, run, scratch

SQLITE = "/usr/bin/sqlite3"
DATA = """
INSERT INTO customers VALUES
 (1, '  ', ' Ann@Example.org ', 'Hafenstr. 5; 20457 Hamburg'),
 (2, 'Bo ', 'bo@example.org', 'Ring 1;1010  Wien ; at'),
 (3, ' Ann Lee', 'ann@example.ORG', 'Hafenstr. 5 ; 20457 Hamburg ; de'),
 (4, 'Ann L.', 'ANN@example.org', 'Postfach 9'),
 (5, NULL, NULL, NULL), (6, 'Cy', '   ', '   '), (7, NULL, 'Dee@x.org', 'Gasse 2; Bern; ch; extra'),
 (8, 'O''Neil', 'o@x.org', 'A; B; '), (9, 'Bo two', 'bo@example.org', 'Ring 1; 1010 Wien; AT');
INSERT INTO products VALUES
 (1, 'K-1', 'Kettle', 19.99), (2, 'M-1', 'Mug', '12,50'), (3, 'A-1', 'Apron', 0.29), (4, 'F-1', 'Free', NULL),
 (5, 'M-1', 'Mug, red', '8'), (6, 'B-1', 'Big', 123456.78), (7, 'C-1', 'Cup', 1.15);
INSERT INTO orders VALUES
 (1, 3, '05.01.2024', 'paid'), (2, 4, '31.01.2024', 'shipped'), (3, 2, '29.02.2024', 'open'),
 (4, 9, '30.02.2024', 'paid'), (5, 2, '2024-03-01', 'paid'), (6, 99, '01.03.2024', 'paid'),
 (7, 2, '01.03.2024', 'lost'), (8, 99, '1.3.2024', 'lost'), (9, 99, '01.03.2024', 'lost'),
 (10, 5, '01.03.2024', NULL), (11, 6, '02.03.2024', 'cancelled'), (12, 7, '31.12.2023', 'paid'),
 (13, 8, '31.12.2024', 'paid'), (14, NULL, '01.05.2024', 'paid'), (15, 2, NULL, 'paid'), (16, 2, '29.02.2023', 'paid');
INSERT INTO order_lines VALUES
 (1, 1, 1, 2, 19.99), (2, 1, 2, 3, '12,50'), (3, 2, 3, 3, 0.29), (4, 3, 3, 1, 0.29), (5, 4, 1, 1, 19.99),
 (6, 77, 88, 0, 1), (7, 3, 88, 1, 1), (8, 3, 1, 0, 1), (9, 3, 1, 'two', 1), (10, 3, 1, 1.5, 1), (11, 3, 1, NULL, 1),
 (12, 11, 1, 50, 19.99), (13, 13, 7, 1, 1.15), (14, 13, 2, 1, NULL), (15, 2, 5, 1, 8), (16, 2, 2, 2, 12.5),
 (17, 13, 6, 1, 123456.78), (18, NULL, 1, 1, 1), (19, 3, 1, -4, 1);
"""


def v3(place, name, data=DATA):
    script = b"".join(hidden(f"v3/{n}.sql") for n in ("001", "002", "003")) + b"PRAGMA user_version = 3;" + data.encode()
    done = run([SQLITE, "-bail", name], place, script)
    expect(done.code == 0, done.stderr)


def db(place, *words, tool="bin/db"):
    return run(["/bin/bash", tool, *words], place, timeout=15)


def rows(place, query, name="shop.db"):
    done = run([SQLITE, "-json", "-bail", name, query], place)
    expect(done.code == 0, done.stderr)
    return [list(row.values()) for row in json.loads(done.text or "[]")]


@once
def migrated():
    place = scratch()
    v3(place, "shop.db")
    done = db(place, "migrate", "shop.db")
    expect(done.code == 0 and done.text == "schema version 4\n", (done.code, done.text, done.stderr))
    return place


def _rows(title, query, wanted):
    @check(title)
    def _one():
        equal(rows(migrated(), query), wanted)


_rows("customers are merged by email", "SELECT id, email FROM customers ORDER BY id",
      [[1, "ann@example.org"], [2, "bo@example.org"], [5, "unknown-5@invalid"], [6, "unknown-6@invalid"],
       [7, "dee@x.org"], [8, "o@x.org"]])
_rows("the name of the smallest id that has one stays", "SELECT name FROM customers ORDER BY id",
      [["Ann Lee"], ["Bo"], ["unknown-5@invalid"], ["Cy"], ["dee@x.org"], ["O'Neil"]])
_rows("addresses are split and equal ones kept once",
      "SELECT customer_id, street, zip, city, country FROM addresses ORDER BY customer_id, street",
      [[1, "Hafenstr. 5", "20457", "Hamburg", "DE"], [1, "Postfach 9", "", "", "DE"], [2, "Ring 1", "1010", "Wien", "AT"],
       [7, "Gasse 2", "", "Bern", "CH"], [8, "A", "", "B", "DE"]])
_rows("prices are whole cents", "SELECT id, price_cents, typeof(price_cents) FROM products ORDER BY id",
      [[1, 1999, "integer"], [2, 1250, "integer"], [3, 29, "integer"], [4, 0, "integer"], [5, 800, "integer"],
       [6, 12345678, "integer"], [7, 115, "integer"]])
_rows("orders follow their customer and have ISO dates", "SELECT id, customer_id, placed, status FROM orders ORDER BY id",
      [[1, 1, "2024-01-05", "paid"], [2, 1, "2024-01-31", "shipped"], [3, 2, "2024-02-29", "open"],
       [10, 5, "2024-03-01", "open"], [11, 6, "2024-03-02", "cancelled"], [12, 7, "2023-12-31", "paid"],
       [13, 8, "2024-12-31", "paid"]])
_rows("rejected orders with their first reason",
      "SELECT source_id, reason FROM rejected WHERE source = 'orders' ORDER BY source_id",
      [[4, "bad date"], [5, "bad date"], [6, "no customer"], [7, "bad status"], [8, "bad date"], [9, "bad status"],
       [14, "no customer"], [15, "bad date"], [16, "bad date"]])
_rows("rejected lines with their first reason",
      "SELECT source_id, reason FROM rejected WHERE source = 'order_lines' ORDER BY source_id",
      [[5, "no order"], [6, "no order"], [7, "no product"], [8, "bad quantity"], [9, "bad quantity"], [10, "bad quantity"],
       [11, "bad quantity"], [18, "no order"], [19, "bad quantity"]])
_rows("nothing else is rejected", "SELECT count(*) FROM rejected", [[18]])
_rows("lines keep their ids and have cents", "SELECT id, order_id, product_id, quantity, unit_price_cents FROM order_lines ORDER BY id",
      [[1, 1, 1, 2, 1999], [2, 1, 2, 3, 1250], [3, 2, 3, 3, 29], [4, 3, 3, 1, 29], [12, 11, 1, 50, 1999], [13, 13, 7, 1, 115],
       [14, 13, 2, 1, 0], [15, 2, 5, 1, 800], [16, 2, 2, 2, 1250], [17, 13, 6, 1, 12345678]])
_rows("only the agreed tables remain", "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
      [["addresses"], ["customers"], ["order_lines"], ["orders"], ["products"], ["rejected"]])
_rows("the index exists again", "SELECT tbl_name FROM sqlite_master WHERE type = 'index' AND name = 'orders_by_customer'", [["orders"]])
_rows("columns of the new tables",
      "SELECT m.name, group_concat(c.name, ' ') FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table' GROUP BY m.name ORDER BY m.name",
      [["addresses", "id customer_id street zip city country"], ["customers", "id name email"],
       ["order_lines", "id order_id product_id quantity unit_price_cents"], ["orders", "id customer_id placed status"],
       ["products", "id sku title price_cents"], ["rejected", "source source_id reason"]])
_rows("foreign keys are declared between the new tables",
      "SELECT m.name, f.\"from\", f.\"table\" FROM sqlite_master m, pragma_foreign_key_list(m.name) f WHERE m.type = 'table' ORDER BY 1, 2",
      [["addresses", "customer_id", "customers"], ["order_lines", "order_id", "orders"], ["order_lines", "product_id", "products"],
       ["orders", "customer_id", "customers"]])
_rows("no foreign key is violated and the file is sound",
      "SELECT (SELECT count(*) FROM pragma_foreign_key_check), (SELECT * FROM pragma_integrity_check)", [[0, "ok"]])
_rows("the version is 4", "PRAGMA user_version", [[4]])


@check("constraints hold for new rows")
def _constraints():
    place = migrated()
    for statement in ("INSERT INTO customers VALUES (50, 'x', 'bo@example.org')", "INSERT INTO customers VALUES (50, NULL, 'n@x')",
                      "INSERT INTO order_lines VALUES (50, 1, 1, 0, 5)", "INSERT INTO order_lines VALUES (50, 1, 999, 1, 5)",
                      "INSERT INTO addresses VALUES (50, 2, 'Ring 1', '1010', 'Wien', 'AT')",
                      "INSERT INTO orders VALUES (50, 999, '2024-01-01', 'open')"):
        done = run([SQLITE, "-bail", "shop.db", f"PRAGMA foreign_keys = on; BEGIN; {statement};"], place)
        expect(done.code != 0, f"accepted: {statement}")


def table(done):
    """Rows of a CSV answer; quoting is free, line ends are not."""
    expect(done.code == 0 and "\r" not in done.text and done.text.endswith("\n"), (done.code, done.text, done.stderr))
    return list(csv.reader(done.text.splitlines()))


HEAD = ["month", "orders", "revenue_cents", "top_sku"]
MONTHS = {"01": "2,11135,M-1", "02": "1,29,A-1", "03": "1,0,", "12": "1,12345793,B-1"}


@check("the report of a year")
def _report():
    wanted = [HEAD] + [[f"{m:02}", *MONTHS.get(f"{m:02}", "0,0,").split(",")] for m in range(1, 13)]
    equal(table(db(migrated(), "report", "shop.db", "2024")), wanted)


@check("the report of a year without orders")
def _empty_report():
    equal(table(db(migrated(), "report", "shop.db", "1999")), [HEAD] + [[f"{m:02}", "0", "0", ""] for m in range(1, 13)])


@check("the report quotes a SKU with a comma, and the first of equal ones wins")
def _quoted():
    place = scratch()
    v3(place, "q.db", "INSERT INTO customers VALUES (1,'a','a@b','x'); INSERT INTO products VALUES (1,'b','t',1),(2,'a,\"b','t',1);"
       "INSERT INTO orders VALUES (1,1,'01.07.2024','paid'); INSERT INTO order_lines VALUES (1,1,1,1,1),(2,1,2,1,1);")
    db(place, "migrate", "q.db")
    equal(table(db(place, "report", "q.db", "2024"))[7], ["07", "1", "200", 'a,"b'])


@check("a wrong year is wrong usage")
def _year():
    place = migrated()
    equal([db(place, "report", "shop.db", year).code for year in ("24", "20245", "abcd", "20 4", "", "2024' OR 1")], [2] * 6)


@check("missing files are reported and not created")
def _missing():
    place = migrated()
    for words in (("version", "none x.db"), ("report", "none x.db", "2024")):
        done = db(place, *words)
        equal([done.code, done.stderr.decode(), (place / "none x.db").exists()], [1, "db: no such file: none x.db\n", False])


@check("a report on an old schema is refused")
def _old():
    place = scratch()
    v3(place, "old.db")
    done = db(place, "report", "old.db", "2024")
    equal([done.code, done.stderr.decode(), done.text], [1, "db: schema version 3 is too old\n", ""])


@check("a newer schema is refused")
def _newer():
    place = scratch()
    run([SQLITE, "new.db", "CREATE TABLE t(a); PRAGMA user_version = 9"], place)
    done = db(place, "migrate", "new.db")
    equal([done.code, done.stderr.decode(), rows(place, "PRAGMA user_version", "new.db")],
          [1, "db: schema version 9 is newer than this tool\n", [[9]]])


@check("a new file gets all migrations, a second run changes nothing")
def _fresh():
    place = scratch()
    equal([db(place, "migrate", "f.db").text, db(place, "migrate", "f.db").text, db(place, "version", "f.db").text],
          ["schema version 4\n", "schema version 4\n", "4\n"])
    equal(rows(place, "SELECT (SELECT count(*) FROM customers) + (SELECT count(*) FROM rejected)", "f.db"), [[0]])


@check("a second run keeps the data of version 4")
def _idempotent():
    place = scratch()
    v3(place, "shop.db")
    for _ in range(2):
        equal(db(place, "migrate", "shop.db").text, "schema version 4\n")
    equal(rows(place, "SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM rejected)"), [[7, 18]])


def _failing(script):
    place = scratch()
    put(place, "migrations/005_ok.sql", "CREATE TABLE fine (a);\n")
    put(place, "migrations/006_bad.sql", script)
    put(place, "migrations/010_later.sql", "CREATE TABLE later (a);\n")
    v3(place, "shop.db")
    done = db(place, "migrate", "shop.db")
    expect(done.code == 1 and "db: migration 006 failed" in done.stderr.decode().splitlines(), (done.code, done.stderr))
    equal(rows(place, "PRAGMA user_version"), [[5]])
    equal(rows(place, "SELECT name FROM sqlite_master WHERE name IN ('fine', 'half', 'later')"), [["fine"]])


@check("a failing statement undoes its whole migration and stops")
def _atomic():
    _failing("CREATE TABLE half (a);\nINSERT INTO nowhere VALUES (1);\nDROP TABLE fine;\n")


@check("a migration that is cut off is undone too")
def _cut_off():
    _failing("CREATE TABLE half (a);\nINSERT INTO half VALUES ('unclosed);\n")


@check("migrations 008 and 009 are numbers, not octal")
def _octal():
    place = scratch()
    put(place, "migrations/008_a.sql", "CREATE TABLE a8 (a);\n")
    put(place, "migrations/009_b.sql", "CREATE TABLE a9 (a)")
    equal(db(place, "migrate", "o.db").text, "schema version 9\n")
    equal(rows(place, "SELECT count(*) FROM sqlite_master WHERE name IN ('a8', 'a9')", "o.db"), [[2]])


@check("blanks and quotes in the names of the file and of the tool's folder")
def _names():
    inner = "it's a \"shop\" $x"
    place = scratch()
    run(["/bin/bash", "-c", f"mkdir {shlex.quote(inner)} && cp -r bin migrations reports {shlex.quote(inner)}/"], place)
    name = "my 'shop' \"3\".db"
    v3(place, "plain.db")
    run(["/bin/mv", "plain.db", name], place)
    done = db(place, "migrate", name, tool=f"{inner}/bin/db")
    equal([done.code, done.text], [0, "schema version 4\n"])
    expect(db(place, "report", name, "2024", tool=f"{inner}/bin/db").text.startswith("month,orders,"), "no report")


@check("released migrations are unchanged")
def _released():
    place = scratch()
    for number, name in (("001", "001_customers"), ("002", "002_orders"), ("003", "003_status")):
        expect((place / f"migrations/{name}.sql").read_bytes() == hidden(f"v3/{number}.sql"), name)


@check("the original tests still pass")
def _regression():
    place = scratch()
    put(place, "test/run.sh", hidden("original_run.sh"), 0o777)
    done = run(["/bin/bash", "test/run.sh"], place)
    expect(done.code == 0 and done.text.count("ok: ") == 5, done.text)


@check("the repository's tests pass and were extended")
def _own():
    done = run(["/bin/bash", "test/run.sh"], scratch(), timeout=40)
    expect(done.code == 0 and done.text.count("ok: ") > 5 and "FAILED" not in done.text, done.text[-800:])
