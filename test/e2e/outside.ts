import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join, normalize } from 'node:path'

/** A server beyond the wall, by plain HTTP and by TLS, that counts who came. */
export interface Outside extends AsyncDisposable {
  readonly host: string
  readonly ports: { readonly http: number; readonly https: number }
  /** Rules by which a person is asked for each call to it: lines of a policy's `rules`. */
  readonly asks: readonly string[]
  url(scheme: 'http' | 'https', path: string): string
  /** How often this was asked for, with any method. */
  times(path: string): number
  /** Methods and paths, in the order in which they came. */
  readonly seen: readonly string[]
}

/** A name of this machine's that programs in a cell do not take for their own. */
export function ownName(): string {
  const names = readFileSync('/etc/hosts', 'utf8')
    .split('\n')
    .flatMap((line) => (/^127\.0\.0\.1\s/.test(line) ? line.trim().split(/\s+/).slice(1) : []))
  return names.find((name) => /^[a-z][a-z0-9-]*$/.test(name) && name !== 'localhost') ?? '127.0.0.2'
}

/** A certificate of nobody's for one name. */
export function certificate(host: string): { readonly key: string; readonly cert: string } {
  const folder = mkdtempSync(join(tmpdir(), 'ah-cert-'))
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'ca.pem')]
  const san = /^\d/.test(host) ? `IP:${host}` : `DNS:${host}`
  const made = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2']
  try {
    const names = ['-subj', '/CN=test', '-addext', `subjectAltName=${san}`]
    execFileSync('openssl', [...made, ...names, '-keyout', key, '-out', cert], { stdio: 'ignore' })
    return { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8') }
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** A repository and a package, as a plain server of files gives them out. */
export function fillFiles(files: string): void {
  const work = `${files}-work`
  const git = (...args: string[]) => execFileSync('git', args, { cwd: work, stdio: 'ignore' })
  mkdirSync(work)
  git('init', '-q', '-b', 'main')
  writeFileSync(join(work, 'README'), 'cloned through the window\n')
  git('add', '.')
  git('-c', 'user.name=a', '-c', 'user.email=a@b', 'commit', '-qm', 'first')
  git('clone', '-q', '--bare', work, join(files, 'repo.git'))
  execFileSync('git', ['update-server-info'], { cwd: join(files, 'repo.git') })
  const version = { name: 'left', version: '1.2.3', dist: { tarball: 'https://example.org/left.tgz', shasum: 'a' } }
  writeFileSync(
    join(files, 'left'),
    JSON.stringify({ name: 'left', 'dist-tags': { latest: '1.2.3' }, versions: { '1.2.3': version } }),
  )
  writeFileSync(join(files, 'hello'), 'hello from outside\n')
}

/** What it answers with. */
export const fromOutside = 'hello from outside'

export async function outside(): Promise<Outside> {
  const host = ownName()
  const seen: string[] = []
  const answer = ({ method, url }: IncomingMessage, response: ServerResponse) => {
    seen.push(`${method} ${url}`)
    response.end(`${fromOutside}: ${url}\n`)
  }
  const servers = [createServer(answer), createTlsServer(certificate(host), answer)]
  for (const server of servers) {
    server.listen(0, /^\d/.test(host) ? host : '127.0.0.1')
    await once(server, 'listening')
  }
  const [http, https] = servers.map((server) => (server.address() as AddressInfo).port) as [number, number]
  const ports = { http, https }
  return {
    host,
    ports,
    // The first says that the place may be on this machine, the second that it is asked for all the same: the strictest counts.
    asks: [http, https].flatMap((port) => {
      const match = `match: { host: ${JSON.stringify(host)}, port: ${port} }`
      return [`  - { on: net, ${match}, effect: allow, own_network: true }`, `  - { on: net, ${match}, effect: ask }`]
    }),
    url: (scheme, path) => `${scheme}://${host}:${ports[scheme]}${path}`,
    times: (path) => seen.filter((one) => one.split(' ')[1] === path).length,
    seen,
    async [Symbol.asyncDispose]() {
      for (const server of servers) {
        server.closeAllConnections()
        await new Promise((resolve) => server.close(resolve))
      }
    },
  }
}

export const pathOf = ({ url = '/' }: IncomingMessage): string =>
  normalize(decodeURIComponent(new URL(url, 'https://x').pathname))

/** Answers with a file of this folder. */
export function giveFile(folder: string, path: string, response: ServerResponse): void {
  try {
    const body = readFileSync(join(folder, path))
    response.writeHead(200, { 'content-type': path === '/left' ? 'application/json' : 'application/octet-stream' }).end(body)
  } catch {
    response.writeHead(404).end()
  }
}
