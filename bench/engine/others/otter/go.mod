module forebay.example/otter

go 1.24.0

require github.com/maypok86/otter/v2 v2.4.0
