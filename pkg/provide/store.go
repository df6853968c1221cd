package provide

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/imgcheck/imgcheck/internal/trust"
	"github.com/imgcheck/imgcheck/pkg/layers"
)

// env is shared by all sources.
type env struct {
	cache    string
	maxCache int64
	client   *http.Client
	indexes  *layers.Cache
	key      trust.Key // of the lists
	insecure bool
	progress func(what string, done, total int64)
	sleep    func(context.Context, time.Duration) error // between attempts, in tests; nil waits

	mu    sync.Mutex
	used  map[string]bool   // files of the cache that must stay
	pages map[string]answer // by URL
}

func newEnv(o Options) (_ *env, err error) {
	e := &env{
		cache: o.Cache, maxCache: o.MaxCache, indexes: o.Indexes, insecure: o.Insecure, progress: o.Progress,
		used: map[string]bool{}, pages: map[string]answer{},
	}
	if e.cache == "" {
		dir, err := CacheDir()
		if err != nil {
			return nil, err
		}
		e.cache = dir
	}
	if e.maxCache == 0 {
		e.maxCache = 32 << 30
	}
	if e.progress == nil {
		e.progress = func(string, int64, int64) {}
	}
	if e.key, err = trust.UserKey(); err != nil {
		e.key = trust.NewKey() // lists of other runs count as absent
	}
	e.client = e.newClient(o.Client)
	return e, nil
}

// metered returns r with its progress reported.
func (e *env) metered(r io.Reader, what string, size int64) io.Reader {
	return &meter{r, func(done int64) { e.progress(what, done, size) }, 0}
}

type meter struct {
	io.Reader
	report func(done int64)
	done   int64
}

func (t *meter) Read(b []byte) (int, error) {
	n, err := t.Reader.Read(b)
	if n > 0 {
		t.done += int64(n)
		t.report(t.done)
	}
	return n, err
}

// CacheDir returns the usual directory for downloads: one in the program's cache, whose
// own files have other names.
func CacheDir() (string, error) {
	dir, err := layers.DefaultCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "downloads"), nil
}

// digestOf returns a file's digest.
func digestOf(open func() (io.ReadCloser, error)) (string, error) {
	rc, err := open()
	if err != nil {
		return "", err
	}
	defer rc.Close()
	h := sha256.New()
	if _, err := io.Copy(h, rc); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// The cache has three directories: sha256 for whole files by their hash, partial for
// unfinished downloads, and lists for the members of archives. A file is renamed into
// sha256 once its hash is verified. A list, of which no hash is known, ends with a code by
// the key of the user: one that others have written, or a restored one, counts as absent.

// dir returns a directory of the cache, which it makes if there is none. It returns an error
// for another user's, and for a link.
func (e *env) dir(name string) (string, error) {
	err := os.MkdirAll(e.cache, 0o700)
	if err == nil {
		err = trust.MakeDir(filepath.Join(e.cache, name))
	}
	if err != nil {
		return "", fmt.Errorf("making the cache: %w", err)
	}
	return filepath.Join(e.cache, name), nil
}

// blob returns the path of a file in the cache, by the hex of its hash.
func (e *env) blob(sum string) string { return filepath.Join(e.cache, "sha256", sum) }

// temp makes an unfinished file in the cache.
func (e *env) temp() (*os.File, error) {
	dir, err := e.dir("partial")
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(dir, unfinished)
	if err != nil {
		return nil, err
	}
	e.use(f.Name())
	return f, tryLock(f) // against removeIdle of other processes
}

// keep gives a file of the cache its final name.
func (e *env) keep(tmp, sum string) (string, error) {
	if _, err := e.dir("sha256"); err != nil {
		return "", err
	}
	p := e.blob(sum)
	if err := os.Rename(tmp, p); err != nil {
		return "", err
	}
	e.use(p)
	e.prune()
	return p, nil
}

// use marks a file of the cache as used, so that this process keeps it.
func (e *env) use(p string) {
	e.mu.Lock()
	e.used[p] = true
	e.mu.Unlock()
	now := time.Now()
	os.Chtimes(p, now, now) // for prune; the cache may be read-only
}

// cached returns the path of a file with a hash, if the cache has it undamaged.
func (e *env) cached(sum string) (string, bool) {
	p := e.blob(sum)
	have, err := digestOf(func() (io.ReadCloser, error) { return trust.Open(p) })
	switch {
	case err != nil:
		return "", false
	case have != "sha256:"+sum:
		os.Remove(p)
		return "", false
	}
	e.use(p)
	return p, true
}

// put stores the bytes of r, at most limit, and returns their path, hash and number.
func (e *env) put(r io.Reader, limit int64) (p, sum string, size int64, err error) {
	tmp, err := e.temp()
	if err != nil {
		return "", "", 0, err
	}
	defer os.Remove(tmp.Name())
	h := sha256.New()
	size, err = io.Copy(io.MultiWriter(tmp, h), io.LimitReader(r, limit+1))
	if err = cmp.Or(err, tmp.Close()); err != nil {
		return "", "", 0, err
	}
	if size > limit {
		return "", "", 0, fmt.Errorf("is longer than %d bytes", limit)
	}
	sum = hexOf(h)
	p, err = e.keep(tmp.Name(), sum)
	return p, sum, size, err
}

func hexOf(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// keptFile is a file of a cache.
type keptFile struct {
	path string
	size int64
	at   time.Time
}

// own are the directories of a cache and the names of files in them. Files with other names
// are not the cache's: a user's own downloads lie in the same place if the cache is the
// home directory.
var own = map[string]*regexp.Regexp{
	"sha256":  regexp.MustCompile(`^[0-9a-f]{64}$`),
	"partial": regexp.MustCompile(`^([0-9a-f]{64}|imgcheck-[0-9]+)$`),
	"lists":   regexp.MustCompile(`^[0-9a-f]{64}\.json$`),
}

// unfinished is the pattern of the names of unfinished files.
const unfinished = "imgcheck-*"

// kept returns the files of a cache, and their bytes.
func kept(dir string) (list []keptFile, total int64) {
	for sub, name := range own {
		entries, _ := os.ReadDir(filepath.Join(dir, sub))
		for _, d := range entries {
			if !d.Type().IsRegular() || !name.MatchString(d.Name()) {
				continue
			}
			if st, err := d.Info(); err == nil {
				list = append(list, keptFile{filepath.Join(dir, sub, d.Name()), st.Size(), st.ModTime()})
				total += st.Size()
			}
		}
	}
	return list, total
}

// Usage returns the number and bytes of the files in a cache of downloads ([CacheDir]).
func Usage(dir string) (files int, size int64) {
	list, size := kept(dir)
	return len(list), size
}

// Clean removes the files of a cache of downloads, except those that another process is
// writing, and returns their number and bytes. Files that are not the cache's stay.
func Clean(dir string) (files int, size int64) {
	list, _ := kept(dir)
	for _, f := range list {
		if removeIdle(f.path) {
			files, size = files+1, size+f.size
		}
	}
	return files, size
}

// prune removes the least recently used files until the cache fits into its limit, or only
// files in use are left.
func (e *env) prune() {
	list, total := kept(e.cache)
	slices.SortFunc(list, func(a, b keptFile) int { return cmp.Or(a.at.Compare(b.at), strings.Compare(a.path, b.path)) })
	for _, f := range list {
		if total <= e.maxCache {
			return
		}
		if !e.inUse(f.path) && removeIdle(f.path) {
			total -= f.size
		}
	}
}

// removeIdle removes a file that no other process is writing.
func removeIdle(p string) bool {
	f, err := trust.Open(p)
	if err != nil {
		return false
	}
	err = tryLock(f)
	f.Close() // first: Windows removes no open file
	return err == nil && os.Remove(p) == nil
}

func (e *env) inUse(p string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.used[p]
}

// isSum reports whether a text is a sha256 in lower-case hex.
func isSum(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && s == strings.ToLower(s)
}

var errNoSum = errors.New("the source gives no sha256 for it, so that it could not be checked")
