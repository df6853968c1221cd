package provide

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
)

// env is what all sources share.
type env struct {
	cache    string
	maxCache int64
	client   *http.Client
	insecure bool
	progress func(what string, done, total int64)

	mu   sync.Mutex
	used map[string]bool // paths of the cache that are in use
}

func newEnv(o Options) (*env, error) {
	e := &env{cache: o.Cache, maxCache: o.MaxCache, client: o.Client, insecure: o.Insecure, progress: o.Progress, used: map[string]bool{}}
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
	if e.client == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.DisableCompression = true // a Range of compressed bytes is not one of the file's
		if e.insecure {
			t.TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // the user has asked for it
		}
		e.client = &http.Client{Transport: t}
	}
	if e.progress == nil {
		e.progress = func(string, int64, int64) {}
	}
	return e, nil
}

// CacheDir is where downloads are kept: downloads in $IMGCHECK_CACHE, or in
// imgcheck in the user's cache directory.
func CacheDir() (string, error) {
	dir := os.Getenv("IMGCHECK_CACHE")
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("finding the cache directory: %w: set IMGCHECK_CACHE", err)
		}
		dir = filepath.Join(user, "imgcheck")
	}
	return filepath.Join(dir, "downloads"), nil
}

// digestOf reads a file's digest.
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
