import { whenNeeded } from '@anchorhold/core/when-needed'
import { apiRoot, newestPage } from '@anchorhold/protocol/api/addresses'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { type Reply, reply } from './reply.ts'

/** The built web app: its files by path, read when they are first asked for. What is not in this list is not served. */
export type Web = {
  readonly files: ReadonlyMap<string, File>
  /** What a session's screen needs beside what every screen does. */
  readonly sessionCode: () => readonly string[]
}
type File = { readonly type: string; readonly plain: () => Buffer; readonly brotli: (() => Buffer) | null }

const types: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
  png: 'image/png',
  woff2: 'font/woff2',
  webmanifest: 'application/manifest+json',
}

/** Addresses that are screens of the app: each is its one page, which finds out where it is. */
const sessionScreen = /^\/sessions\/(ses_[0-9a-z]{16})$/
const screens = [/^\/$/, /^\/(?:new|inbox|usage|audit)$/, /^\/settings(?:\/[a-z-]{1,40})?$/, sessionScreen]
const page = '/index.html'

export function readWeb(folder: string): Web {
  // A daemon that was not built, as in a unit test, has its API all the same.
  const names = existsSync(folder) ? namesIn(folder) : []
  const has = new Set(names)
  const file = (name: string) => whenNeeded(() => readFileSync(join(folder, name)))
  const files = new Map(
    names.flatMap((name): [string, File][] => {
      const type = types[/\.(\w+)$/.exec(name)?.[1] ?? '']
      if (type === undefined) return []
      return [[`/${name}`, { type, plain: file(name), brotli: has.has(`${name}.br`) ? file(`${name}.br`) : null }]]
    }),
  )
  return { files, sessionCode: whenNeeded(() => (has.has(manifest) ? sessionCode(join(folder, manifest)) : [])) }
}

/** Of files, with those of folders below. Not by Node's own way, which is a good part of a start. */
function namesIn(folder: string, above = ''): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const name = `${above}${entry.name}`
    return entry.isDirectory() ? namesIn(join(folder, entry.name), `${name}/`) : [name]
  })
}

const manifest = '.vite/manifest.json'
const Manifest = z.record(z.string(), z.object({ file: z.string(), imports: z.array(z.string()).optional() }))

/** What the build says that a session's screen imports, without what the page imports anyway. */
function sessionCode(path: string): readonly string[] {
  const chunks = Manifest.parse(JSON.parse(readFileSync(path, 'utf8')))
  const reached = (name: string, all = new Set<string>()): Set<string> => {
    if (all.has(name)) return all
    all.add(name)
    for (const next of chunks[name]?.imports ?? []) reached(next, all)
    return all
  }
  const page = reached('index.html')
  return [...reached('src/session/SessionPage.tsx')].flatMap((name) => (page.has(name) ? [] : (chunks[name]?.file ?? [])))
}

/** What the browser is to ask for along with the page, which it would otherwise find out about one after the other: the files of the
 *  screen, and what the screen will show. Who is not logged in gets nothing by it. */
function ahead({ sessionCode }: Web, pathname: string): string | null {
  const id = sessionScreen.exec(pathname)?.[1]
  if (id === undefined) return null
  const query = new URLSearchParams(Object.entries(newestPage).map(([name, value]) => [name, String(value)]))
  const calls = [`/sessions/${id}/events?${query.toString()}`, `/sessions/${id}`]
  return [
    ...calls.map((path) => `<${apiRoot}${path}>; rel=preload; as=fetch; crossorigin`),
    ...sessionCode().map((file) => `</${file}>; rel=modulepreload`),
  ].join(', ')
}

/** The file under an address, or null. A name with a hash in it never changes; every other is asked for anew. */
export function webAnswer(web: Web, pathname: string, accepts: string): Reply | null {
  const isScreen = screens.some((screen) => screen.test(pathname))
  if (!isScreen && pathname === page) return null
  const link = ahead(web, pathname)
  return fileAnswer(web.files.get(isScreen ? page : pathname), accepts, {
    'cache-control': cacheFor(pathname, isScreen),
    ...(link === null ? {} : { link }),
  })
}

/** The app all the same, for a person who followed an address that leads nowhere: it says so, and has the way back. */
export const lostAnswer = (web: Web, accepts: string): Reply | null =>
  fileAnswer(web.files.get(page), accepts, { 'cache-control': 'no-store' })

function fileAnswer(file: File | undefined, accepts: string, headers: Readonly<Record<string, string>>): Reply | null {
  if (file === undefined) return null
  const brotli = /\bbr\b/.test(accepts) ? file.brotli : null
  return reply({
    text: (brotli ?? file.plain)(),
    headers: {
      'content-type': file.type,
      vary: 'accept-encoding',
      ...(brotli === null ? {} : { 'content-encoding': 'br' }),
      ...headers,
    },
  })
}

function cacheFor(pathname: string, isScreen: boolean): string {
  if (isScreen) return 'no-store'
  return pathname.startsWith('/assets/') ? 'public, max-age=31536000, immutable' : 'no-cache'
}
