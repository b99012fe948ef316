module muster.dev/observer

go 1.26
