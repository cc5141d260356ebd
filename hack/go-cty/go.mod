module github.com/zclconf/go-cty

go 1.26.0
