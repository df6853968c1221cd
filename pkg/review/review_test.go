package review

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/imgcheck/imgcheck/internal/forgetest"
)

const mark = "<!-- mark -->"

func at(f *forgetest.Forge, lab bool, project string) Change {
	c := Change{Address: f.URL, Project: project, Number: 7, Token: forgetest.Token, GitLab: lab}
	if lab {
		c.Address += "/api/v4/"
	}
	return c
}

// TestKeep: there is one comment of one's own, whatever happens between the requests.
func TestKeep(t *testing.T) {
	for _, lab := range []bool{false, true} {
		f := forgetest.Serve(t)
		keep := func(project, body string, only bool) string {
			t.Helper()
			did, _, err := Keep(t.Context(), at(f, lab, project), mark, mark+"\n"+body, only, Options{})
			if err != nil {
				t.Errorf("gitlab %v: %s: %v", lab, project, err)
			}
			return string(did)
		}
		for _, project := range []string{"org/app", "org/limited", "org/lost", "org/gone"} {
			for i := range 150 {
				f.Add(project, 7, 2, fmt.Sprint(mark, " of somebody else ", i))
			}
			want := "none created unchanged updated"
			if project == "org/lost" {
				want = "none unchanged unchanged updated" // the comment was there when the requests began again
			}
			if project == "org/gone" {
				want = "none created unchanged created"
			}
			got := strings.Join([]string{keep(project, "one", true), keep(project, "one", false), keep(project, "one  \n", false), keep(project, "two", true && project != "org/gone")}, " ")
			if got != want {
				t.Errorf("gitlab %v: %s: %s, want %s", lab, project, got, want)
			}
			var mine []string
			for _, c := range f.Comments(project, 7) {
				if c.Author == 1 {
					mine = append(mine, c.Body)
				}
			}
			if len(mine) != 1 || mine[0] != mark+"\ntwo" {
				t.Errorf("gitlab %v: %s: %q", lab, project, mine)
			}
		}
	}
}

// TestApp: the token of a workflow does not tell whose it is, and finds a bot's comment.
func TestApp(t *testing.T) {
	f := forgetest.Serve(t)
	f.Add("org/app", 7, 1, mark+" of a user")
	c := at(f, false, "org/app")
	c.Token = forgetest.App
	for i, want := range []Outcome{Created, Updated} {
		if did, page, err := Keep(t.Context(), c, mark, fmt.Sprint(mark, i), false, Options{}); did != want || err != nil || page != "https://github.example/c/102" {
			t.Errorf("%s %s, %v", did, page, err)
		}
	}
	c = at(f, true, "org/app")
	c.Token = forgetest.App
	if _, _, err := Keep(t.Context(), c, mark, mark, false, Options{}); err == nil || !strings.Contains(err.Error(), "CI_JOB_TOKEN") {
		t.Error(err)
	}
}

// TestRefusals: each refusal is one line that says what to do, without the token.
func TestRefusals(t *testing.T) {
	f := forgetest.Serve(t)
	for _, tt := range []struct {
		project string
		lab     bool
		want    string
	}{
		{"org/forbidden", false, "answered 403 Forbidden (Resource not accessible by integration): give the job `permissions: pull-requests: write`; the token of a pull request from a fork may not write"},
		{"org/forbidden", true, "answered 403 Forbidden (Resource not accessible by integration): the token needs the scope api and the role Reporter or higher; a job's own CI_JOB_TOKEN may not write comments"},
		{"org/absent", false, "answered 404 Not Found (Not Found): there is no org/absent 7, or the token may not see it"},
		{"org/absent", true, "answered 404 Not Found (Not Found): there is no org/absent 7, or the token may not see it"},
		{"org/invalid", false, "answered 422 Unprocessable Entity (Validation Failed): the platform does not take the comment"},
		{"org/invalid", true, `answered 400 Bad Request ({"note":["is too long"]})`},
		{"org/exhausted", false, "answered 403 Forbidden (API rate limit exceeded for TOKEN): the rate limit of the token is used up; try again later"},
		{"org/moved", true, "answered 301 Moved Permanently (Moved Permanently): the project has moved: name it as it is called now"},
		{"org/garbage", false, "the answer is not the documented JSON: invalid character '<' looking for beginning of value"},
		{"org/endless", false, "the change has more than 5000 comments, and the one of imgcheck is not among the first"},
		{"org", false, `"org" is no repository`},
		{"", true, `"" is no repository`},
	} {
		did, _, err := Keep(t.Context(), at(f, tt.lab, tt.project), mark, mark, false, Options{})
		if err == nil || did != "" || !strings.HasSuffix(err.Error(), tt.want) || strings.ContainsAny(err.Error(), "\n\r") {
			t.Errorf("%s: %q, %v; want %s", tt.project, did, err, tt.want)
		}
	}
	for name, change := range map[string]func(*Change){
		"the token is wrong or has expired":     func(c *Change) { c.Token = "unknown-token" },
		"there is no token":                     func(c *Change) { c.Token = "" },
		"is there a line break at its end?":     func(c *Change) { c.Token += "\n" },
		"there is no number of a pull request":  func(c *Change) { c.Number = 0 },
		"not of the form https://HOST/PATH":     func(c *Change) { c.Address = "github.com" },
		"the token is not sent over plain HTTP": func(c *Change) { c.Address = "http://forge.example" },
		"connection refused":                    func(c *Change) { c.Address = "http://127.0.0.1:1" },
	} {
		c := at(f, false, "org/app")
		change(&c)
		if _, _, err := Keep(t.Context(), c, mark, mark, false, Options{}); err == nil || !strings.Contains(err.Error(), name) || c.Token != "" && strings.Contains(err.Error(), c.Token) {
			t.Errorf("%v, want %s", err, name)
		}
	}
	if _, _, err := Keep(t.Context(), at(f, false, "org/app"), mark, "without", false, Options{}); err == nil {
		t.Error("a comment without its marker is sent")
	}
}

// answers is a transport that refuses each request in the same way.
type answers struct {
	code   int
	header http.Header
	asked  int
}

func (a *answers) RoundTrip(*http.Request) (*http.Response, error) {
	a.asked++
	return &http.Response{StatusCode: a.code, Header: a.header, Body: http.NoBody}, nil
}

// TestRateLimits: a short wait is waited for, a few times, and a long one is not.
func TestRateLimits(t *testing.T) {
	for _, tt := range []struct {
		after string
		asked int
		waits string
	}{{"7", maxRefused, "[7s 7s 7s]"}, {"3600", 1, "[]"}, {"x", 1, "[]"}, {"", 1, "[]"}} {
		a := &answers{http.StatusForbidden, http.Header{"Retry-After": {tt.after}}, 0}
		var waits []time.Duration
		c := Change{Address: "https://forge.example", Project: "1", Number: 1, Token: "t", GitLab: true}
		_, _, err := Keep(t.Context(), c, mark, mark, false, Options{Client: &http.Client{Transport: a}, Sleep: func(_ context.Context, d time.Duration) error {
			waits = append(waits, d)
			return nil
		}})
		if err == nil || a.asked != tt.asked || fmt.Sprint(waits) != tt.waits {
			t.Errorf("Retry-After %q: %d requests, waits %v, %v", tt.after, a.asked, waits, err)
		}
	}
}

// FuzzAnswer reads any answer: an outcome, or an error in one line without the token.
func FuzzAnswer(f *testing.F) {
	f.Add(200, `[{"id":1,"body":"x","user":{"id":1}}]`, `<x>; rel="next"`)
	f.Add(403, `{"message":"secret"}`, "")
	f.Add(422, `{"message":{"a":["b"]},"error":"c"}`, "")
	f.Fuzz(func(t *testing.T, code int, body, link string) {
		if code < 200 || code > 599 || len(body) > 4096 {
			return
		}
		k := &keeper{Change: Change{Address: "https://forge.example", Project: "p", Number: 1, Token: "secret"}}
		err := k.refusal(&http.Response{StatusCode: code, Header: http.Header{"Link": {link}}}, []byte(body))
		if strings.ContainsAny(err.Error(), "\n\r\x1b") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q", err)
		}
		hasNext([]string{link})
	})
}
