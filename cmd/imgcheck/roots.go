package main

// Certificates for where a system has none, as in the container image of
// imgcheck; the system's are taken wherever there are any.
import _ "golang.org/x/crypto/x509roots/fallback"
