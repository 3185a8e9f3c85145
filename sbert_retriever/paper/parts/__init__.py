"""The parts of the study, (a) to (h): each names its cells and makes a section of the results."""
