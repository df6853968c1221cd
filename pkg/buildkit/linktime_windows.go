package buildkit

import "time"

// linkTime leaves a link the time at which it was made.
func linkTime(string, time.Time) error { return nil }
