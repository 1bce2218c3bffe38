"""The five fields of an expression, parsed to sets of integers."""

from dataclasses import dataclass

from tickwise.errors import BadExpression

MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]


@dataclass(frozen=True)
class FieldSpec:
    """Name and range of a field; `names` maps a three letter name to its value; `wraps` allows fri-mon."""

    name: str
    low: int
    high: int
    names: tuple = ()
    wraps: bool = False

    def value(self, text):
        lowered = text.lower()
        for name, number in self.names:
            if lowered == name:
                return number
        if not text.isdigit():
            raise BadExpression(f"{self.name}: {text!r} is not a value")
        number = int(text)
        if not self.low <= number <= self.high:
            raise BadExpression(f"{self.name}: {number} is not in {self.low}-{self.high}")
        return number


SPECS = (
    FieldSpec("minute", 0, 59),
    FieldSpec("hour", 0, 23),
    FieldSpec("day-of-month", 1, 31),
    FieldSpec("month", 1, 12, tuple((name, i + 1) for i, name in enumerate(MONTHS)), wraps=True),
    FieldSpec("day-of-week", 0, 6, tuple((name, i) for i, name in enumerate(WEEKDAYS)), wraps=True),
)


@dataclass(frozen=True)
class Field:
    """The values of one field, and whether it was written as a plain `*`."""

    values: frozenset
    star: bool


def _split_step(spec, item):
    body, slash, step_text = item.partition("/")
    if not slash:
        return body, 1
    if not step_text.isdigit() or int(step_text) == 0:
        raise BadExpression(f"{spec.name}: {step_text!r} is not a step")
    return body, int(step_text)


def _item_values(spec, item):
    body, step = _split_step(spec, item)
    if body == "*":
        low, high = spec.low, spec.high
    elif "-" in body:
        left, _, right = body.partition("-")
        low, high = spec.value(left), spec.value(right)
    else:
        low = high = spec.value(body)
        if step != 1:
            raise BadExpression(f"{spec.name}: a step needs a range, not {item!r}")
    if low > high:
        raise BadExpression(f"{spec.name}: {item!r} runs backwards")
    return {value for value in range(low, high + 1) if value % step == 0}


def parse_field(spec, text):
    """Parse one field; raises BadExpression."""
    values = set()
    for item in text.split(","):
        if not item:
            raise BadExpression(f"{spec.name}: empty item in {text!r}")
        values |= _item_values(spec, item)
    return Field(frozenset(values), star="*" in text)
