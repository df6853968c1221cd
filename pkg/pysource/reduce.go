package pysource

// reducedMark begins the first line of a text that Reduce returned.
const reducedMark = "# imgcheck: reduced 1"
