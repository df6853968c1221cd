package plain

import (
	"regexp"
	"strings"
)

// login finds what may be the login of a URL in a text: from :// to an @. Quotes and
// backslashes end it, so that it stays within a string of JSON.
var (
	login = regexp.MustCompile(`://[^\s"'\\<>]*@`)
	port  = regexp.MustCompile(`^://[^/:@]*:[0-9]{1,5}/`)
)

// Masked returns s with … in the place of logins in URLs, also of ones that do not parse: a
// password may have a slash or a percent sign. The @ of an image's digest is none of a login.
func Masked(s string) string {
	if !strings.Contains(s, "://") || !strings.Contains(s, "@") {
		return s
	}
	var b strings.Builder
	for {
		at := login.FindStringIndex(s)
		if at == nil {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:at[0]])
		b.WriteString(maskedLogin(s[at[0]:at[1]], s[at[1]:]))
		s = s[at[1]:]
	}
}

// maskedLogin returns a text of login's with … for what is before the @, unless it is no
// login: there is a path before the @, and no password before the path. rest follows it.
func maskedLogin(text, rest string) string {
	inside := strings.TrimSuffix(strings.TrimPrefix(text, "://"), "@")
	host, _, path := strings.Cut(inside, "/")
	if path && (!strings.Contains(host, ":") || port.MatchString(text) && strings.HasPrefix(rest, "sha256:")) {
		return text
	}
	return "://…@"
}

// MaskedURL does as Masked for a text that is a URL as a whole, so that blanks and quotes are
// a part of a password.
func MaskedURL(s string) string {
	scheme, rest, ok := strings.Cut(s, "://")
	at := strings.LastIndex(rest, "@")
	if !ok || at < 0 {
		return s
	}
	return scheme + maskedLogin("://"+rest[:at+1], rest[at+1:]) + rest[at+1:]
}
