package main

// Root certificates for systems without any, such as imgcheck's container image. A
// system's own certificates come first.
import _ "golang.org/x/crypto/x509roots/fallback"
