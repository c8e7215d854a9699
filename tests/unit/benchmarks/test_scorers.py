import pytest

from agentcompass.plugins.benchmarks.scorers import exact_match, normalize, normalized_match, numeric_match


@pytest.mark.parametrize(
    ("answer", "expected", "same"),
    [
        ("Paris", "Paris", True),
        (" Paris\n", "Paris", True),
        ("paris", "Paris", False),
        ("Paris.", "Paris", False),
    ],
)
def test_exact_differs_only_in_surrounding_white_space(answer: str, expected: str, same: bool) -> None:
    assert exact_match(answer, expected) is same


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Eiffel\tTower.", "eiffel tower"),
        ("STRASSE", "strasse"),
        ("Straße", "strasse"),
        ("ﬁne Ｗidth", "fine width"),
        ("U.S.A.", "usa"),
        ("don’t", "dont"),
        ("twenty-one", "twenty one"),
        ("and/or", "and or"),
        ("“quoted”", "quoted"),
        ("1,234,567", "1234567"),
        ("3.14.", "3.14"),
        ("1,5", "1,5"),
        ("10:30", "10:30"),
        ("C++", "c++"),
        ("C#", "c#"),
        ("5%", "5%"),
        ("−5", "-5"),
        ("x-5", "x 5"),
    ],
)
def test_normalisation(text: str, normal: str) -> None:
    assert normalize(text) == normal


@pytest.mark.parametrize(
    ("answer", "expected"),
    [("(A)", "A"), ("an apple", "Apple"), ("Café", "cafe\u0301"), ("1,000", "1000"), ("?!", "?!")],
)
def test_normalized_accepts_trivial_differences(answer: str, expected: str) -> None:
    assert normalized_match(answer, expected)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("B", "A"),
        ("the", "A"),
        ("", "A"),
        ("  ", "?"),
        ("-5", "5"),
        ("314", "3.14"),
        ("C", "C++"),
        ("C", "C#"),
        ("15", "1,5"),
        ("Paris, France", "Paris"),
    ],
)
def test_normalized_keeps_differences_that_mean_something(answer: str, expected: str) -> None:
    assert not normalized_match(answer, expected)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("The answer is 1,234.50.", "1234.5"),
        ("first 3, then 4", "4"),
        ("minus: −5", "-5"),
        ("10-5", "5"),
        ("3/4", "0.75"),
        ("1 3/4 cups", "1.75"),
        ("1½", "1.5"),
        ("\\frac{3}{4}", "0.75"),
        ("-\\dfrac{1}{2}", "-0.5"),
        ("6.02e23", "602000000000000000000000"),
        ("6.02 × 10^23", "6.02e23"),
        ("2 \\times 10^{-3}", "0.002"),
        ("10²³", "1e23"),
        ("5 m²", "5"),
        ("$1,000", "1000"),
        ("-$5", "-5"),
        ("1'000", "1000"),
        ("1\u202f000\u202f000", "1000000"),
        ("**42**", "42"),
        ("\\boxed{42}", "42"),
        (".5", "0.5"),
        ("٣", "3"),
        ("0.30000000000000000000001", "0.30000000000000000000001"),
        ("12345678901234567891", "12345678901234567891"),
    ],
)
def test_numeric_finds_the_last_number(answer: str, expected: str) -> None:
    assert numeric_match(answer, expected)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("no number", "5"),
        ("", "0"),
        ("x5", "5"),
        ("3/0", "0"),
        ("4 apples and 5 pears", "4"),
        ("12345678901234567890", "12345678901234567891"),
        ("0.333333", "1/3"),
        ("1e999999999999", "1"),
        ("inf", "1e9"),
    ],
)
def test_numeric_refuses_other_numbers(answer: str, expected: str) -> None:
    assert not numeric_match(answer, expected)


@pytest.mark.parametrize(
    ("answer", "expected"), [("50%", "50"), ("50%", "0.5"), ("0.5", "50%"), ("50", "50 %"), ("50\\%", "50%")]
)
def test_a_percent_sign_on_one_side_allows_both_readings(answer: str, expected: str) -> None:
    assert numeric_match(answer, expected)


def test_two_percent_signs_leave_one_reading() -> None:
    assert not numeric_match("0.5%", "50%")


def test_the_larger_tolerance_holds() -> None:
    assert numeric_match("0.333333", "1/3", relative=1e-5)
    assert numeric_match("101", "100", absolute=1)
    assert numeric_match("0.001", "0", absolute=0.01)
    assert not numeric_match("0.001", "0", relative=0.5)
    assert not numeric_match("102", "100", relative=0.01, absolute=1)


@pytest.mark.parametrize("text", ["1", "1,", "1 ", "1,111", "1/", "10^", "$", "-", "1 1/", "½"])
def test_long_texts_of_one_kind_are_read_in_time(text: str) -> None:
    # A quadratic pattern would need minutes for this.
    numeric_match(text * 200_000, "1")
