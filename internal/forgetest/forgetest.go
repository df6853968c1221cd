// Package forgetest plays the REST interfaces of GitHub and GitLab, for tests: users and the
// comments of pull requests and merge requests, as
// https://docs.github.com/en/rest/issues/comments and https://docs.gitlab.com/api/notes/ have
// them. A request that differs from them is refused.
//
// The name of a project decides which fault it has; [Faults] lists them. The package knows
// nothing of the text of a comment.
package forgetest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// Token is that of the user whose comments may be written; App is one of a workflow, that may
// not ask who it is.
const (
	Token = "secret-token-of-tests"
	App   = "secret-token-of-workflows"
)

// Faults are the projects that fail, with what is wrong.
var Faults = map[string]string{
	"org/forbidden": "403: the token may not write comments",
	"org/absent":    "404: there is no such project",
	"org/invalid":   "422, or GitLab's 400: a comment is not taken",
	"org/limited":   "403 with Retry-After before the first answer",
	"org/exhausted": "403 with no requests left for an hour",
	"org/lost":      "a comment is created, and the answer is 502",
	"org/gone":      "the comment is deleted before the first change of it",
	"org/moved":     "301 to another host",
	"org/garbage":   "answers are no JSON",
	"org/endless":   "each page of comments has a next one",
}

// Comment is one of a change.
type Comment struct {
	ID     int64
	Author int64 // 1 is the user of Token, 2 somebody else, 3 the user of App
	Body   string
}

// Forge is a server for both platforms: GitHub below /, and GitLab below /api/v4.
type Forge struct {
	*httptest.Server
	mu       sync.Mutex
	comments map[string][]Comment // by PROJECT NUMBER
	next     int64
	did      map[string]bool // faults that come once
	errors   []string
}

// Serve starts a Forge, which ends with the test.
func Serve(t testing.TB) *Forge {
	f := &Forge{comments: map[string][]Comment{}, did: map[string]bool{}, next: 100}
	f.Server = httptest.NewServer(f)
	t.Cleanup(func() {
		f.Close()
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, e := range f.errors {
			t.Error(e)
		}
	})
	return f
}

// Comments returns the comments of a change.
func (f *Forge) Comments(project string, number int) []Comment {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.comments[key(project, number)])
}

// Add adds a comment to a change.
func (f *Forge) Add(project string, number int, author int64, body string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.add(key(project, number), author, body)
}

func (f *Forge) add(key string, author int64, body string) Comment {
	f.next++
	c := Comment{f.next, author, body}
	f.comments[key] = append(f.comments[key], c)
	return c
}

func key(project string, number int) string { return fmt.Sprintf("%s %d", project, number) }

// wrong notes a request that a client of the documented interface would not send.
func (f *Forge) wrong(w http.ResponseWriter, format string, args ...any) {
	f.errors = append(f.errors, fmt.Sprintf(format, args...))
	http.Error(w, "wrong request", http.StatusTeapot)
}

var (
	githubPath = regexp.MustCompile(`^/repos/([^/]+/[^/]+)/issues/(?:([0-9]+)/comments|comments/([0-9]+))$`)
	gitlabPath = regexp.MustCompile(`^/api/v4/projects/([^/]+)/merge_requests/([0-9]+)/notes(?:/([0-9]+))?$`)
)

// ServeHTTP answers a request.
func (f *Forge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	path := r.URL.EscapedPath()
	lab := strings.HasPrefix(path, "/api/v4/")
	token := r.Header.Get("PRIVATE-TOKEN")
	if !lab {
		token = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if r.Header.Get("Accept") != "application/vnd.github+json" || r.Header.Get("X-GitHub-Api-Version") != "2022-11-28" {
			f.wrong(w, "%s %s without the media type and the version of the interface", r.Method, path)
			return
		}
	}
	me := map[string]int64{Token: 1, App: 3}[token]
	switch {
	case me == 0:
		refuse(w, http.StatusUnauthorized, "Bad credentials")
	case path == "/user" || path == "/api/v4/user":
		if me == 3 {
			refuse(w, http.StatusForbidden, "Resource not accessible by integration")
			return
		}
		answer(w, http.StatusOK, map[string]any{"id": me, "login": "me", "type": "User"})
	case lab && gitlabPath.MatchString(path):
		m := gitlabPath.FindStringSubmatch(path)
		project, err := url.PathUnescape(m[1])
		if err != nil {
			f.wrong(w, "%s: %v", path, err)
			return
		}
		f.project(w, r, me, project, m[2], m[3])
	case githubPath.MatchString(path):
		m := githubPath.FindStringSubmatch(path)
		f.project(w, r, me, m[1], m[2], m[3])
	default:
		f.wrong(w, "%s %s is no request of the interfaces", r.Method, path)
	}
}

// project answers a request for the comments of a change, or for one of them.
func (f *Forge) project(w http.ResponseWriter, r *http.Request, me int64, project, number, id string) {
	lab := strings.HasPrefix(r.URL.Path, "/api/v4/")
	once := func() bool {
		was := f.did[project]
		f.did[project] = true
		return !was
	}
	writes := r.Method != http.MethodGet
	switch {
	case project == "org/absent":
		refuse(w, http.StatusNotFound, "Not Found")
	case project == "org/moved":
		w.Header().Set("Location", "https://elsewhere.example/x")
		refuse(w, http.StatusMovedPermanently, "Moved Permanently")
	case project == "org/garbage":
		io.WriteString(w, "<html>")
	case project == "org/limited" && once():
		w.Header().Set("Retry-After", "0")
		refuse(w, http.StatusForbidden, "You have exceeded a secondary rate limit")
	case project == "org/exhausted":
		w.Header().Set("X-RateLimit-Remaining", "0")
		refuse(w, http.StatusForbidden, "API rate limit exceeded for "+strings.TrimPrefix(r.Header.Get("PRIVATE-TOKEN")+r.Header.Get("Authorization"), "Bearer "))
	case project == "org/forbidden" && writes:
		refuse(w, http.StatusForbidden, "Resource not accessible by integration")
	case project == "org/invalid" && writes && lab:
		answer(w, http.StatusBadRequest, map[string]any{"message": map[string]any{"note": []string{"is too long"}}})
	case project == "org/invalid" && writes:
		refuse(w, http.StatusUnprocessableEntity, "Validation Failed")
	case project == "org/gone" && id != "" && once():
		for k := range f.comments {
			f.comments[k] = slices.DeleteFunc(f.comments[k], func(c Comment) bool { return fmt.Sprint(c.ID) == id })
		}
		refuse(w, http.StatusNotFound, "Not Found")
	case id != "":
		f.change(w, r, me, project, id, lab)
	case r.Method == http.MethodPost:
		f.create(w, r, me, project, number, lab, project == "org/lost" && once())
	case r.Method == http.MethodGet:
		f.list(w, r, project, number, lab)
	default:
		f.wrong(w, "%s %s", r.Method, r.URL.Path)
	}
}

// body reads the text of a comment.
func (f *Forge) body(w http.ResponseWriter, r *http.Request, most int) (string, bool) {
	var in map[string]string
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || len(in) != 1 || in["body"] == "" || r.Header.Get("Content-Type") != "application/json" {
		f.wrong(w, "%s %s: %v, %v", r.Method, r.URL.Path, in, err)
		return "", false
	}
	if utf8.RuneCountInString(in["body"]) > most {
		refuse(w, http.StatusUnprocessableEntity, "body is too long")
		return "", false
	}
	return in["body"], true
}

func most(lab bool) int {
	if lab {
		return 1_000_000
	}
	return 65_536
}

func (f *Forge) create(w http.ResponseWriter, r *http.Request, me int64, project, number string, lab, lose bool) {
	body, ok := f.body(w, r, most(lab))
	if !ok {
		return
	}
	c := f.add(project+" "+number, me, body)
	if lose {
		http.Error(w, "Bad Gateway", http.StatusBadGateway)
		return
	}
	answer(w, http.StatusCreated, shown(c, lab))
}

func (f *Forge) change(w http.ResponseWriter, r *http.Request, me int64, project, id string, lab bool) {
	if method := map[bool]string{false: http.MethodPatch, true: http.MethodPut}[lab]; r.Method != method {
		f.wrong(w, "%s %s, not %s", r.Method, r.URL.Path, method)
		return
	}
	body, ok := f.body(w, r, most(lab))
	if !ok {
		return
	}
	for k, list := range f.comments {
		for i, c := range list {
			if fmt.Sprint(c.ID) != id || !strings.HasPrefix(k, project+" ") {
				continue
			}
			if c.Author != me {
				f.wrong(w, "the comment %s of another user is changed", id)
				return
			}
			list[i].Body = body
			answer(w, http.StatusOK, shown(list[i], lab))
			return
		}
	}
	refuse(w, http.StatusNotFound, "Not Found")
}

func (f *Forge) list(w http.ResponseWriter, r *http.Request, project, number string, lab bool) {
	size, err := strconv.Atoi(r.URL.Query().Get("per_page"))
	page, err2 := strconv.Atoi(r.URL.Query().Get("page"))
	if err != nil || err2 != nil || size < 1 || size > 100 || page < 1 {
		f.wrong(w, "%s: pages begin with 1 and have at most 100", r.URL)
		return
	}
	all := f.comments[project+" "+number]
	if project == "org/endless" {
		all = slices.Repeat([]Comment{{1, 2, "x"}}, (page+1)*size)
	}
	first, last := min((page-1)*size, len(all)), min(page*size, len(all))
	list := []any{}
	for _, c := range all[first:last] {
		list = append(list, shown(c, lab))
	}
	switch {
	case last == len(all):
	case lab:
		w.Header().Set("X-Next-Page", strconv.Itoa(page+1))
	default:
		w.Header().Set("Link", fmt.Sprintf(`<http://%s%s?page=1>; rel="prev", <http://%s%s?page=%d>; rel="next"`, r.Host, r.URL.Path, r.Host, r.URL.Path, page+1))
	}
	answer(w, http.StatusOK, list)
}

// shown returns a comment as a platform shows it. GitHub may change the ends of lines.
func shown(c Comment, lab bool) map[string]any {
	if lab {
		return map[string]any{"id": c.ID, "body": c.Body, "system": false, "author": map[string]any{"id": c.Author, "username": "u"}}
	}
	kind := map[int64]string{1: "User", 2: "User", 3: "Bot"}[c.Author]
	return map[string]any{"id": c.ID, "body": strings.ReplaceAll(c.Body, "\n", "\r\n"), "html_url": fmt.Sprintf("https://github.example/c/%d", c.ID), "user": map[string]any{"id": c.Author, "login": "u", "type": kind}}
}

func refuse(w http.ResponseWriter, code int, message string) {
	answer(w, code, map[string]any{"message": message, "documentation_url": "https://docs.example"})
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(v)
}
