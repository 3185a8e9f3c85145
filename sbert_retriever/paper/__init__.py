"""The paper's study in small, on the data and the encoders at hand; its page is made by it."""
