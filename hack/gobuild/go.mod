module github.com/scanner-operator/scanner-operator/hack/gobuild

go 1.26.8
