module github.com/minio/minlz

go 1.26.0
