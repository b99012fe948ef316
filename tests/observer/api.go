package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// api is one connection to an API server.
type api struct {
	server string
	token  string
	client *http.Client
}

// event is one line of a watch, or one object of the list that a watch began with.
type event struct {
	kind string // Job or Pod
	verb string // ADDED, MODIFIED, DELETED
	raw  json.RawMessage
	seen time.Time
}

func connect(path string) (*api, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		Clusters []struct {
			Cluster struct {
				Server string `json:"server"`
				CAData string `json:"certificate-authority-data"`
				CA     string `json:"certificate-authority"`
			} `json:"cluster"`
		} `json:"clusters"`
		Users []struct {
			User struct {
				Token    string `json:"token"`
				CertData string `json:"client-certificate-data"`
				KeyData  string `json:"client-key-data"`
			} `json:"user"`
		} `json:"users"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(file.Clusters) != 1 || len(file.Users) != 1 {
		return nil, fmt.Errorf("%s: one cluster and one user are needed", path)
	}
	cluster, user := file.Clusters[0].Cluster, file.Users[0].User
	ca, err := base64.StdEncoding.DecodeString(cluster.CAData)
	if err != nil {
		return nil, fmt.Errorf("%s: certificate-authority-data: %w", path, err)
	}
	if len(ca) == 0 && cluster.CA != "" {
		if ca, err = os.ReadFile(cluster.CA); err != nil {
			return nil, err
		}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	config := &tls.Config{RootCAs: roots}
	if user.CertData != "" {
		cert, _ := base64.StdEncoding.DecodeString(user.CertData)
		key, _ := base64.StdEncoding.DecodeString(user.KeyData)
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return &api{
		server: cluster.Server,
		token:  user.Token,
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: config}},
	}, nil
}

func (a *api) open(ctx context.Context, path string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.server+path, nil)
	if err != nil {
		return nil, err
	}
	if a.token != "" {
		request.Header.Set("Authorization", "Bearer "+a.token)
	}
	response, err := a.client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		body, _ := io.ReadAll(io.LimitReader(response.Body, 1000))
		return nil, fmt.Errorf("GET %s: %s: %s", path, response.Status, body)
	}
	return response.Body, nil
}

type list struct {
	Metadata struct {
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Items []json.RawMessage `json:"items"`
}

func (a *api) list(ctx context.Context, path string) (list, error) {
	var l list
	body, err := a.open(ctx, path)
	if err != nil {
		return l, err
	}
	defer body.Close()
	return l, json.NewDecoder(body).Decode(&l)
}

// follow lists once and then watches without a gap; it resumes where a watch ended. A resume that the
// server refuses is an error: a moment might have been missed.
func (a *api) follow(ctx context.Context, kind, path string, out chan<- event) error {
	first, err := a.list(ctx, path)
	if err != nil {
		return err
	}
	for _, item := range first.Items {
		out <- event{kind, "ADDED", item, time.Now()}
	}
	version := first.Metadata.ResourceVersion
	for ctx.Err() == nil {
		body, err := a.open(ctx, path+"?watch=1&allowWatchBookmarks=true&timeoutSeconds=600&resourceVersion="+version)
		if err != nil {
			return err
		}
		lines := bufio.NewReaderSize(body, 1<<20)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				break
			}
			var change struct {
				Type   string          `json:"type"`
				Object json.RawMessage `json:"object"`
			}
			var meta struct {
				Metadata struct {
					ResourceVersion string `json:"resourceVersion"`
				} `json:"metadata"`
			}
			if json.Unmarshal(line, &change) != nil || json.Unmarshal(change.Object, &meta) != nil || change.Type == "ERROR" {
				body.Close()
				return fmt.Errorf("watch %s: %s", path, line)
			}
			version = meta.Metadata.ResourceVersion
			if change.Type != "BOOKMARK" {
				out <- event{kind, change.Type, change.Object, time.Now()}
			}
		}
		body.Close()
	}
	return nil
}
