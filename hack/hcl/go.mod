module github.com/hashicorp/hcl/v2

go 1.26.0
