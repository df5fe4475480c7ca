import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { dirname, join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { type Asked, fill, type Registry, shownIn } from './registry.ts'

export type Forge = Registry & {
  /** Where its repositories lie, each as `OWNER/NAME.git`. */
  readonly folder: string
  /** Makes a repository with one commit on `main`; a private one is not even read without the token. */
  repository(name: string, files: Readonly<Record<string, string>>, visibility?: 'public' | 'private'): string
  /** The pull requests that were made here, in order. */
  readonly made: readonly PullRequest[]
  /** What git says inside a repository of its own. */
  git(name: string, ...args: readonly string[]): string
}

type PullRequest = { readonly repo: string; readonly headRefName: string; readonly title: string }
type GraphqlBody = { readonly query: string; readonly variables?: Variables }
type Variables = {
  readonly owner?: string
  readonly name?: string
  readonly repo?: string
  readonly input?: Partial<Record<string, string>>
}

/** An id that only the forge can read. */
const idOf = (name: string) => `R_${Buffer.from(name).toString('hex')}`
const nameOfId = (id: string) => Buffer.from(id.slice(2), 'hex').toString()

/** A forge like GitHub: repositories over git's smart HTTP, by git's own server; LFS; and a little of its API. Who pushes, and who reads
 *  what is private, must show the token, unless there is none. */
export function forge(scratch: string, token: string | null, host = 'github.com'): Forge {
  const folder = join(scratch, 'forge')
  const privates = new Set<string>()
  const made: PullRequest[] = []
  mkdirSync(folder, { recursive: true })
  const pathOf = (name: string) => join(folder, `${name}.git`)

  const isKnown = ({ headers }: IncomingMessage) => token === null || shownIn(headers.authorization) === token

  async function answer(asked: Asked, request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (asked.host.startsWith('api.')) return answerApi(asked, request, response)
    const found = /^\/([\w.-]+\/[\w.-]+?)(?:\.git)?(\/.*)$/.exec(asked.path)
    if (found === null || !existsSync(pathOf(found[1]!))) return void response.writeHead(404).end()
    const [, name = '', rest = ''] = found
    const writes = rest === '/git-receive-pack' || asked.query.includes('git-receive-pack') || request.method === 'PUT'
    if ((writes || privates.has(name)) && !isKnown(request))
      return void response.writeHead(401, { 'www-authenticate': 'Basic realm="forge"' }).end()
    if (rest.startsWith('/info/lfs/')) return answerLfs(name, rest, request, response)
    return runBackend({ ...asked, path: `/${name}.git${rest}` }, request, response)
  }

  /** See git-http-backend(1) and RFC 3875. */
  async function runBackend({ path, query, method }: Asked, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { headers } = request
    const child = spawn('git', ['http-backend'], {
      env: {
        PATH: process.env.PATH,
        GIT_PROJECT_ROOT: folder,
        GIT_HTTP_EXPORT_ALL: '1',
        GIT_CONFIG_COUNT: '1',
        GIT_CONFIG_KEY_0: 'safe.directory',
        GIT_CONFIG_VALUE_0: '*',
        PATH_INFO: path,
        QUERY_STRING: query,
        REQUEST_METHOD: method,
        CONTENT_TYPE: headers['content-type'] ?? '',
        HTTP_CONTENT_ENCODING: headers['content-encoding'] ?? '',
        HTTP_GIT_PROTOCOL: [headers['git-protocol'] ?? ''].flat().join(),
        REMOTE_USER: 'agent',
        REMOTE_ADDR: '127.0.0.1',
      },
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    child.stdin.on('error', () => {})
    request.pipe(child.stdin)
    const said = await buffer(child.stdout)
    const end = said.indexOf('\r\n\r\n')
    const fields = said
      .subarray(0, end)
      .toString()
      .split('\r\n')
      .map((line) => line.split(': ') as [string, string])
    const status = Number(fields.find(([name]) => name === 'Status')?.[1]?.slice(0, 3) ?? '200')
    response.writeHead(status, Object.fromEntries(fields.filter(([name]) => name !== 'Status'))).end(said.subarray(end + 4))
  }

  /** See https://github.com/git-lfs/git-lfs/blob/main/docs/api/batch.md */
  async function answerLfs(name: string, rest: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const type = { 'content-type': 'application/vnd.git-lfs+json' }
    const body = await buffer(request)
    const objectAt = (oid: string) => join(pathOf(name), 'lfs-objects', oid)
    const oid = /^\/info\/lfs\/objects\/([0-9a-f]{64})$/.exec(rest)?.[1]
    if (oid !== undefined && request.method === 'PUT') {
      mkdirSync(dirname(objectAt(oid)), { recursive: true })
      writeFileSync(objectAt(oid), body)
      return void response.writeHead(200).end()
    }
    if (oid !== undefined) return void response.writeHead(200).end(readFileSync(objectAt(oid)))
    if (rest === '/info/lfs/locks/verify') return void response.writeHead(404, type).end('{"message":"no locks here"}')
    if (rest !== '/info/lfs/objects/batch') return void response.writeHead(404, type).end('{}')
    const { operation, objects } = JSON.parse(body.toString()) as { operation: string; objects: { oid: string; size: number }[] }
    if (operation === 'upload' && !isKnown(request))
      return void response.writeHead(401, { ...type, 'lfs-authenticate': 'Basic realm="forge"' }).end('{}')
    // Some forges tell the client to show again what it has just shown.
    const header = request.headers.authorization === undefined ? {} : { Authorization: request.headers.authorization }
    const action = (one: string) => ({ href: `https://${host}/${name}.git/info/lfs/objects/${one}`, header })
    const answered = objects.map((one) => ({ ...one, actions: { [operation]: action(one.oid) } }))
    response.writeHead(200, type).end(JSON.stringify({ transfer: 'basic', objects: answered }))
  }

  /** What `gh pr list` and `gh pr create` ask: which fields there are, the repository, its pull requests; and the change itself, which names
   *  its repository by an id alone. */
  async function answerGraphql(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { query, variables = {} } = JSON.parse((await buffer(request)).toString()) as GraphqlBody
    const say = (data: object) =>
      void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ data }))
    if (query.includes('createPullRequest(')) {
      const { repositoryId = '', headRefName = '', title = '' } = variables.input ?? {}
      const url = `https://${host}/${nameOfId(repositoryId)}/pull/${made.push({ repo: nameOfId(repositoryId), headRefName, title })}`
      return say({ createPullRequest: { pullRequest: { id: 'PR_1', url } } })
    }
    if (query.includes('__type')) return say({})
    const author = { login: 'somebody', id: 'U_1', name: 'Somebody' }
    const open = { number: 7, title: 'a pull request', state: 'OPEN', headRefName: 'agent/one', isDraft: false, author }
    const list = query.includes('headRefName: $headRefName') ? [] : [open]
    const pullRequests = { totalCount: list.length, nodes: list, pageInfo: { hasNextPage: false, endCursor: '' } }
    const [owner = '', name = ''] = (
      variables.owner === undefined ? '' : `${variables.owner}/${variables.name ?? variables.repo}`
    ).split('/')
    const repository = {
      ...{ id: idOf(`${owner}/${name}`), name, owner: { login: owner }, hasIssuesEnabled: true, viewerPermission: 'WRITE' },
      ...{ defaultBranchRef: { name: 'main' }, parent: null, mergeCommitAllowed: true, pullRequests },
    }
    say({ repository, viewer: { login: 'agent' } })
  }

  function answerApi({ path, method }: Asked, request: IncomingMessage, response: ServerResponse): Promise<void> | void {
    const type = { 'content-type': 'application/json; charset=utf-8' }
    if (!isKnown(request)) return void response.writeHead(401, type).end('{"message":"Bad credentials"}')
    if (path === '/graphql') return answerGraphql(request, response)
    const name = /^\/repos\/([\w.-]+\/[\w.-]+)/.exec(path)?.[1]
    if (name === undefined || !existsSync(pathOf(name))) return void response.writeHead(404, type).end('{"message":"Not Found"}')
    // It tells what it was shown, as a server that logs too much would.
    response.writeHead(200, type).end(JSON.stringify({ full_name: name, method, echo: request.headers.authorization }))
  }

  return {
    hosts: [host, `api.${host}`],
    folder,
    made,
    answer,
    repository(name, files, visibility = 'public') {
      const work = join(scratch, 'work', name)
      fill(work, files)
      const git = (...args: string[]) => execFileSync('git', args, { cwd: work, stdio: 'ignore' })
      git('init', '-q', '-b', 'main')
      git('add', '.')
      git('-c', 'user.name=a', '-c', 'user.email=a@b', 'commit', '-qm', 'first')
      mkdirSync(dirname(pathOf(name)), { recursive: true })
      git('clone', '-q', '--bare', work, pathOf(name))
      execFileSync('git', ['config', 'http.receivepack', 'true'], { cwd: pathOf(name) })
      if (visibility === 'private') privates.add(name)
      return pathOf(name)
    },
    git: (name, ...args) => execFileSync('git', args, { cwd: pathOf(name), encoding: 'utf8' }),
  }
}
