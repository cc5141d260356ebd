package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// MaxTokenLength bounds a page token in bytes. A longer one is refused before it is looked at.
const MaxTokenLength = 8192

const (
	tokenVersion = 1
	// maxTokenValues bounds how many sort values a token carries.
	maxTokenValues = 8
)

// maxInteger is how many characters an integer of 64 bits has at most.
const maxInteger = len("-9223372036854775808")

// pageToken is what an opaque token holds: which query it belongs to, and the sort values of the last row that was
// returned. Values are bytes so that no JSON escaping can make a token much longer than its content.
type pageToken struct {
	Version int      `json:"v"`
	Query   []byte   `json:"q"`
	Values  [][]byte `json:"k"`
}

// EncodeToken makes the token of the page that starts behind a row with these sort values. The query is anything that
// encoding/json writes in one way only, without its Page.
func EncodeToken(query any, values ...string) (string, error) {
	hash, err := queryHash(query)
	if err != nil {
		return "", err
	}
	token := pageToken{Version: tokenVersion, Query: hash, Values: make([][]byte, len(values))}
	padding := 0
	for i, value := range values {
		token.Values[i] = []byte(value)
		if _, err := strconv.ParseInt(value, 10, 64); err == nil {
			padding += base64.StdEncoding.EncodedLen(maxInteger) - base64.StdEncoding.EncodedLen(len(value))
		}
	}
	content, err := json.Marshal(token)
	if err != nil {
		return "", fmt.Errorf("encode page token: %w", err)
	}
	// Servers encrypt tokens, because row numbers tell how much there is of namespaces that the caller does not see. Their length must not tell it either.
	content = append(content, strings.Repeat(" ", max(padding, 0))...)
	encoded := base64.RawURLEncoding.EncodeToString(content)
	if len(encoded) > MaxTokenLength {
		return "", fmt.Errorf("the page token has %d bytes, the maximum is %d", len(encoded), MaxTokenLength)
	}
	return encoded, nil
}

// DecodeToken returns the sort values in a token that EncodeToken made for the same query, and ErrInvalidToken for every
// other text, or when the number of values is not count.
func DecodeToken(token string, query any, count int) ([]string, error) {
	if len(token) > MaxTokenLength {
		return nil, fmt.Errorf("%w: it has %d bytes, the maximum is %d", ErrInvalidToken, len(token), MaxTokenLength)
	}
	content, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil {
		return nil, fmt.Errorf("%w: it is not base64url", ErrInvalidToken)
	}
	var decoded pageToken
	if err := json.Unmarshal(content, &decoded); err != nil {
		return nil, fmt.Errorf("%w: the content is not valid", ErrInvalidToken)
	}
	if decoded.Version != tokenVersion {
		return nil, fmt.Errorf("%w: unsupported version %d, expected %d", ErrInvalidToken, decoded.Version, tokenVersion)
	}
	hash, err := queryHash(query)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(hash, decoded.Query) {
		return nil, fmt.Errorf("%w: it belongs to another query", ErrInvalidToken)
	}
	if len(decoded.Values) != count || count > maxTokenValues {
		return nil, fmt.Errorf("%w: it has %d values, expected %d", ErrInvalidToken, len(decoded.Values), count)
	}
	values := make([]string, count)
	for i, value := range decoded.Values {
		values[i] = string(value)
	}
	return values, nil
}

func queryHash(query any) ([]byte, error) {
	content, err := json.Marshal(query)
	if err != nil {
		return nil, fmt.Errorf("encode query: %w", err)
	}
	sum := sha256.Sum256(content)
	return sum[:16], nil
}

// Limit is the number of rows that a page holds: Size, DefaultPageSize when it is 0 or less, at most MaxPageSize.
func (p Page) Limit() int {
	switch {
	case p.Size <= 0:
		return DefaultPageSize
	case p.Size > MaxPageSize:
		return MaxPageSize
	default:
		return p.Size
	}
}
