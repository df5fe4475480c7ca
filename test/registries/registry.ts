import { createHash } from 'node:crypto'
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { dirname, join } from 'node:path'

/** One kind of registry: which hosts it stands for, and how it answers for them. */
export type Registry = {
  readonly hosts: readonly string[]
  answer(asked: Asked, request: IncomingMessage, response: ServerResponse): Promise<void> | void
}

export type Asked = { readonly host: string; readonly method: string; readonly path: string; readonly query: string }

/** A call that a server saw, with the credential that came with it. */
export type SeenCall = Asked & { readonly authorization: string | null }

/** A registry that gives out what is in a table, by host and path. */
export function tableRegistry(hosts: readonly string[], table: ReadonlyMap<string, Content>): Registry {
  return {
    hosts,
    answer({ host, path }, _request, response) {
      const found = table.get(`${host}${path}`)
      if (found === undefined) return void response.writeHead(404).end()
      response.writeHead(200, { 'content-type': found.type, 'content-length': found.body.length }).end(found.body)
    },
  }
}
export type Content = { readonly type: string; readonly body: Buffer }

export const content = (type: string, body: string | Buffer): Content => ({ type, body: Buffer.from(body) })
export const json = (value: unknown): Content => content('application/json', JSON.stringify(value))
export const bytes = (body: Buffer): Content => content('application/octet-stream', body)

export const digest = (name: string, body: Buffer, encoding: 'hex' | 'base64' = 'hex'): string =>
  createHash(name).update(body).digest(encoding)

/** Writes files below a folder, whose names may have folders in them. */
export function fill(folder: string, files: Readonly<Record<string, string>>): void {
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), text)
  }
}

/** The bytes of an archive that is made of a folder. */
export const tarGz = (folder: string, name: string): Buffer => execFileSync('tar', ['-cz', '-C', folder, name])

/** The same as a zip of these files alone, without entries for folders. */
export function zip(folder: string, names: readonly string[]): Buffer {
  const program = 'import sys, zipfile\nz = zipfile.ZipFile("made.zip", "w")\nfor name in sys.argv[1:]: z.write(name)\nz.close()'
  execFileSync('/usr/bin/python3', ['-c', program, ...names], { cwd: folder })
  return readFileSync(join(folder, 'made.zip'))
}

/** The same registry for those alone who show a secret, whichever way of RFC 7235 they show it in. */
export const demanding = (secret: string, registry: Registry): Registry => ({
  hosts: registry.hosts,
  answer(asked, request, response) {
    if (shownIn(request.headers.authorization) === secret) return registry.answer(asked, request, response)
    response.writeHead(401, { 'www-authenticate': 'Basic realm="registry"' }).end()
  },
})

/** The token or password that a header Authorization holds. */
export function shownIn(authorization: string | undefined | null): string | null {
  const [kind = '', value = ''] = (authorization ?? '').split(' ')
  if (kind === 'Basic') return Buffer.from(value, 'base64').toString().split(':').slice(1).join(':')
  return kind === 'Bearer' || kind === 'token' ? value : null
}
