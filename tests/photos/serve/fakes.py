"""Photos as a form sends them."""

import io

from tests.photos import fakes


def files(colour: str, count: int = 6, start: int = 0) -> list:
    """Photos of a colour as a form sends them, under a name that would do harm as a path."""
    found = []
    for i in range(start, start + count):
        buffer = io.BytesIO()
        fakes.photo(colour, 100 * sorted(fakes.COLOURS).index(colour) + i).save(buffer, "PNG")
        found.append(("photos", ("../../escaped.png", buffer.getvalue(), "image/png")))
    return found


def learn(client, colour, count=6, start=0, label=None):
    answer = client.post("/api/learn", data={"label": label or colour}, files=files(colour, count, start))
    assert answer.status_code == 200, answer.text
    return answer.json()
