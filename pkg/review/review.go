// Package review keeps one comment on a pull request of GitHub or a merge request of GitLab
// up to date: it finds the comment by a marker, and creates or changes it by the platforms'
// REST interfaces.
//
// Only a comment that the token's own user has written is changed, and texts of others with
// the marker stay as they are. Answers are bounded, and texts of servers are made safe
// for logs. The token is sent to the platform's address alone and is in no error. The package
// does not know what a comment says, nor where the token comes from.
package review

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/imgcheck/imgcheck/internal/plain"
	"github.com/imgcheck/imgcheck/pkg/source"
)

// Limits: bytes of an answer, which has a hundred comments at most, pages of comments, bytes
// of an error's text, attempts of a request that a rate limit refuses, and seconds that one
// may ask to wait.
const (
	maxAnswer  = 64 << 20
	maxPages   = 50
	maxMessage = 300
	maxRefused = 4
	maxSeconds = 120
)

// Change is a pull request or a merge request.
type Change struct {
	// Address is that of the platform's interface: https://api.github.com, or
	// https://gitlab.com/api/v4.
	Address string
	// Project is the repository, OWNER/NAME, and of GitLab a path or a number.
	Project string
	Number  int
	// Token may write comments. It must not be empty.
	Token string
	// GitLab is set for a merge request.
	GitLab bool
}

// Options are the settings of [Keep].
type Options struct {
	Client *http.Client // nil: imgcheck's own
	// Insecure allows plain HTTP and certificates that are not verified.
	Insecure bool
	// Sleep waits before another attempt; nil means that it waits. Tests set it.
	Sleep func(context.Context, time.Duration) error
}

// Outcome is the name of an end of [Keep].
type Outcome string

// The outcomes.
const (
	Created Outcome = "created"
	Updated Outcome = "updated"
	Same    Outcome = "unchanged" // the comment said that already
	None    Outcome = "none"      // there is nothing to say, and no comment
)

// Keep makes the comment with a marker say body, in which the marker must be. If the change
// has none, it creates one, unless only is set: then only a comment that is there is updated.
// It returns the comment's address as the platform says it.
func Keep(ctx context.Context, c Change, marker, body string, only bool, o Options) (Outcome, string, error) {
	k, err := newKeeper(c, o)
	if err != nil {
		return "", "", err
	}
	if !strings.Contains(body, marker) {
		return "", "", errors.New("the comment lacks its marker")
	}
	me, err := k.me(ctx)
	if err != nil {
		return "", "", err
	}
	// A comment may be deleted between the requests, and one may be created although the
	// answer does not come: after a failure the comments are listed again.
	for attempt := 1; ; attempt++ {
		old, err := k.find(ctx, me, marker)
		if err != nil {
			return "", "", err
		}
		var to *note
		did := Updated
		switch {
		case old != nil && same(old.Body, body):
			return Same, k.address(old), nil
		case old != nil:
			to, err = k.change(ctx, old.ID, body)
		case only:
			return None, "", nil
		default:
			did = Created
			to, err = k.create(ctx, body)
		}
		if err == nil {
			return did, k.address(to), nil
		}
		if attempt == 3 || ctx.Err() != nil || !again(err) {
			return "", "", err
		}
	}
}

// same compares texts as a platform keeps them: GitHub may change ends of lines, and both
// cut blanks at the end.
func same(a, b string) bool {
	bare := func(s string) string { return strings.TrimSpace(strings.ReplaceAll(s, "\r\n", "\n")) }
	return bare(a) == bare(b)
}

// note is a comment, in the words of both platforms.
type note struct {
	ID      int64  `json:"id"`
	Body    string `json:"body"`
	HTMLURL string `json:"html_url"` // GitHub's
	System  bool   `json:"system"`   // GitLab's: an event, such as a new commit
	User    person `json:"user"`     // GitHub's
	Author  person `json:"author"`   // GitLab's
}

type person struct {
	ID   int64  `json:"id"`
	Type string `json:"type"` // GitHub's: Bot, User
}

// statusError is an answer that refuses a request.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return e.text }

// again reports whether a request may be sent again after its comments were listed.
func again(err error) bool {
	var refused *statusError
	if !errors.As(err, &refused) {
		return true // no answer came
	}
	return refused.code == http.StatusNotFound || refused.code == http.StatusGone || refused.code >= 500
}

type keeper struct {
	Change
	client *http.Client
	sleep  func(context.Context, time.Duration) error
	notes  string // the path of the comments
}

func newKeeper(c Change, o Options) (*keeper, error) {
	u, err := url.Parse(c.Address)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("the platform's address is not of the form https://HOST/PATH")
	case u.Scheme == "http" && !o.Insecure && !source.IsLoopback(u.Hostname()):
		return nil, fmt.Errorf("%s: the token is not sent over plain HTTP (--insecure allows it)", plain.Line(u.Host))
	case c.Token == "":
		return nil, errors.New("there is no token")
	case strings.ContainsFunc(c.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, errors.New("the token has characters that no token has: is there a line break at its end?")
	case c.Number < 1:
		return nil, errors.New("there is no number of a pull request")
	}
	c.Address = strings.TrimRight(c.Address, "/")
	k := &keeper{Change: c, client: &http.Client{}, sleep: o.Sleep}
	if o.Client != nil {
		*k.client = *o.Client
	} else {
		k.client.Transport = source.Patient(source.Transport(o.Insecure), source.Options{Sleep: o.Sleep})
	}
	// A redirect might take the token to another host.
	k.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if k.sleep == nil {
		k.sleep = source.Sleep
	}
	owner, name, ok := strings.Cut(c.Project, "/")
	switch {
	case c.GitLab && c.Project != "":
		k.notes = fmt.Sprintf("/projects/%s/merge_requests/%d/notes", url.PathEscape(c.Project), c.Number)
	case !c.GitLab && ok && owner != "" && name != "" && !strings.Contains(name, "/"):
		k.notes = fmt.Sprintf("/repos/%s/%s/issues/%d/comments", url.PathEscape(owner), url.PathEscape(name), c.Number)
	default:
		return nil, fmt.Errorf("%q is no repository", c.Project)
	}
	return k, nil
}

// me returns the user of the token. A token of GitHub's that is an app's, as the one of a
// workflow, may not ask who it is: its comments are a bot's.
func (k *keeper) me(ctx context.Context) (person, error) {
	var p person
	err := k.do(ctx, http.MethodGet, "/user", nil, &p, nil)
	var refused *statusError
	if !k.GitLab && errors.As(err, &refused) && (refused.code == http.StatusForbidden || refused.code == http.StatusNotFound) {
		return person{Type: "Bot"}, nil
	}
	if err == nil && p.ID == 0 {
		err = fmt.Errorf("%s does not say whose token it is", k.host())
	}
	return p, err
}

// find returns the first comment of a user with the marker, or nil.
func (k *keeper) find(ctx context.Context, me person, marker string) (*note, error) {
	query := "?per_page=100&page="
	if k.GitLab {
		query = "?sort=asc&order_by=created_at&per_page=100&page="
	}
	for page := 1; ; page++ {
		var list []note
		more := false
		if err := k.do(ctx, http.MethodGet, k.notes+query+strconv.Itoa(page), nil, &list, func(h http.Header) {
			more = h.Get("X-Next-Page") != "" || hasNext(h.Values("Link"))
		}); err != nil {
			return nil, err
		}
		for i := range list {
			n := &list[i]
			by := n.User
			if k.GitLab {
				by = n.Author
			}
			mine := me.ID != 0 && by.ID == me.ID || me.ID == 0 && by.Type == me.Type
			if mine && !n.System && strings.Contains(n.Body, marker) {
				return n, nil
			}
		}
		switch {
		case !more || len(list) == 0:
			return nil, nil
		case page == maxPages:
			return nil, fmt.Errorf("%s: the change has more than %d comments, and the one of imgcheck is not among the first", k.host(), maxPages*100)
		}
	}
}

// hasNext reports whether a Link header (RFC 8288) has a next page.
func hasNext(links []string) bool {
	for _, l := range links {
		for part := range strings.SplitSeq(l, ",") {
			if _, parameters, ok := strings.Cut(part, ">"); ok && strings.Contains(strings.ReplaceAll(parameters, " ", ""), `rel="next"`) {
				return true
			}
		}
	}
	return false
}

func (k *keeper) create(ctx context.Context, body string) (*note, error) {
	n := new(note)
	return n, k.do(ctx, http.MethodPost, k.notes, map[string]string{"body": body}, n, nil)
}

func (k *keeper) change(ctx context.Context, id int64, body string) (*note, error) {
	n := new(note)
	if k.GitLab {
		return n, k.do(ctx, http.MethodPut, fmt.Sprintf("%s/%d", k.notes, id), map[string]string{"body": body}, n, nil)
	}
	path := strings.TrimSuffix(k.notes, fmt.Sprintf("/%d/comments", k.Number)) + fmt.Sprintf("/comments/%d", id)
	return n, k.do(ctx, http.MethodPatch, path, map[string]string{"body": body}, n, nil)
}

// address returns the page of a comment, or "" if the platform does not say it.
func (k *keeper) address(n *note) string {
	u, err := url.Parse(n.HTMLURL)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" {
		return ""
	}
	return plain.Line(n.HTMLURL)
}

func (k *keeper) host() string {
	u, err := url.Parse(k.Address)
	if err != nil {
		return "the platform"
	}
	return plain.Line(u.Host)
}

// do sends a request, and again if a rate limit refuses it for a short time, and reads the
// answer.
func (k *keeper) do(ctx context.Context, method, path string, send, to any, header func(http.Header)) error {
	for attempt := 1; ; attempt++ {
		resp, err := k.send(ctx, method, path, send)
		if err != nil {
			if explained := source.HostError(k.host(), err); explained != nil {
				err = explained
			}
			return fmt.Errorf("%s: %w", k.host(), unwrapped(err))
		}
		b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
		resp.Body.Close()
		switch {
		case err != nil:
			return fmt.Errorf("%s: reading the answer: %w", k.host(), err)
		case len(b) > maxAnswer:
			return fmt.Errorf("%s: the answer is larger than %d MiB", k.host(), maxAnswer>>20)
		}
		if resp.StatusCode >= 200 && resp.StatusCode < 300 {
			if err := json.Unmarshal(b, to); err != nil {
				return fmt.Errorf("%s: the answer is not the documented JSON: %s", k.host(), plain.Line(err.Error()))
			}
			if header != nil {
				header(resp.Header)
			}
			return nil
		}
		wait, short := limited(resp)
		if !short || attempt == maxRefused {
			return k.refusal(resp, b)
		}
		if err := k.sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// unwrapped returns an error without the method and the address that net/http adds.
func unwrapped(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

func (k *keeper) send(ctx context.Context, method, path string, send any) (*http.Response, error) {
	var body io.Reader
	if send != nil {
		b, err := json.Marshal(send)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, k.Address+path, body)
	if err != nil {
		return nil, err
	}
	if method == http.MethodPost {
		req.GetBody = nil // it is not sent twice: that would make two comments
	}
	if send != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if k.GitLab {
		req.Header.Set("PRIVATE-TOKEN", k.Token)
	} else {
		req.Header.Set("Authorization", "Bearer "+k.Token)
		req.Header.Set("Accept", "application/vnd.github+json")
		req.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	}
	return k.client.Do(req)
}

// limited returns how long a rate limit asks to wait, and whether that is short. GitHub
// refuses with 403 or 429, and says Retry-After for its secondary limits
// (https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api); the
// transport waits for 429 itself.
func limited(resp *http.Response) (wait time.Duration, short bool) {
	if resp.StatusCode != http.StatusForbidden {
		return 0, false
	}
	seconds, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 16)
	if err != nil || seconds > maxSeconds {
		return 0, false
	}
	return time.Duration(seconds) * time.Second, true
}

// refusal explains an answer that refuses a request.
func (k *keeper) refusal(resp *http.Response, b []byte) error {
	var says struct {
		Message json.RawMessage `json:"message"` // a text, or GitLab's list of them
		Error   string          `json:"error"`   // GitLab's
	}
	text := ""
	if json.Unmarshal(b, &says) == nil {
		if json.Unmarshal(says.Message, &text) != nil {
			text = string(says.Message)
		}
		if text == "" {
			text = says.Error
		}
	}
	text = strings.ReplaceAll(text, k.Token, "TOKEN")
	if text = plain.Line(text); len([]rune(text)) > maxMessage {
		text = string([]rune(text)[:maxMessage]) + "…"
	}
	if text != "" {
		text = " (" + text + ")"
	}
	line := fmt.Sprintf("%s answered %d %s%s", k.host(), resp.StatusCode, http.StatusText(resp.StatusCode), text)
	if next := k.next(resp); next != "" {
		line += ": " + next
	}
	return &statusError{resp.StatusCode, line}
}

// next says what to do about an answer that refuses a request.
func (k *keeper) next(resp *http.Response) string {
	limit := resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusForbidden && (resp.Header.Get("X-Ratelimit-Remaining") == "0" || resp.Header.Get("Retry-After") != "")
	switch {
	case limit:
		return "the rate limit of the token is used up; try again later"
	case resp.StatusCode == http.StatusUnauthorized:
		return "the token is wrong or has expired"
	case resp.StatusCode == http.StatusForbidden && k.GitLab:
		return "the token needs the scope api and the role Reporter or higher; a job's own CI_JOB_TOKEN may not write comments"
	case resp.StatusCode == http.StatusForbidden:
		return "give the job `permissions: pull-requests: write`; the token of a pull request from a fork may not write"
	case resp.StatusCode == http.StatusNotFound:
		return fmt.Sprintf("there is no %s %d, or the token may not see it", k.Project, k.Number)
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return "the project has moved: name it as it is called now"
	case resp.StatusCode == http.StatusUnprocessableEntity:
		return "the platform does not take the comment"
	}
	return ""
}
