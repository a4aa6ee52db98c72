"""From photos to answers: what is kept of a class, how it answers, the files it is kept in."""
