from torchsets.lab.reports import table_as_text
from torchsets.lab.reports.tables import Mean, Row, Table

ROWS = [
    Row("FSPool", [Mean(0.25), Mean()], None, 1),
    Row("Other", None, [Mean(2.0), Mean(3.0)], 0),
    Row("Elsewhere", None, [Mean(), Mean(4.0)], 0),
]


def test_rows_of_the_thesis_alone_are_added_on_demand_if_they_have_numbers():
    table = Table("key", "Caption", "%", None, ["n=4", "n=8"], ROWS, in_thesis=True)
    assert table_as_text(table).splitlines() == [
        "Caption (%)",
        "                   n=4",
        "  FSPool  ours   0.250",
    ]
    assert table_as_text(table, all_rows=True).splitlines() == [
        "Caption (%)",
        "                     n=4",
        "  FSPool  ours     0.250",
        "  Other   thesis   2.000",
    ]


def test_a_long_name_of_a_column_is_broken_into_lines():
    table = Table("key", "Caption", "%", None, ["size of the largest set", "n=8"], ROWS[:1], False)
    assert table_as_text(table).splitlines()[1:3] == [
        "                size of the",
        "                largest set",
    ]
