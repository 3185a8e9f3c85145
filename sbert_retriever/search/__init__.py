"""The way of one query: what is asked, the first stage, the second stage, the answer."""
