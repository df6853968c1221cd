package pysource

// Partial returns a text that [Parse] reads as a reduced one whose other statements are
// missing for a reason: of a module that has no source. body is in the form of a reduced
// text, where `?` is an unknown expression.
func Partial(why, body string) []byte { return []byte(reducedMark + ": " + why + "\n" + body) }
