package source

import "context"

type noticeKey struct{}

// WithNotice returns a context whose requests call tell with a line of text when they wait
// for a server: for which one, and why. tell is called from many goroutines.
func WithNotice(ctx context.Context, tell func(text string)) context.Context {
	return context.WithValue(ctx, noticeKey{}, tell)
}

// noticeOf returns the function of WithNotice, or one that does nothing.
func noticeOf(ctx context.Context) func(string) {
	if tell, ok := ctx.Value(noticeKey{}).(func(string)); ok {
		return tell
	}
	return func(string) {}
}
