import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Reply, reply } from './reply.ts'

/** The built web app: its files by path, read when they are first asked for. What is not in this list is not served. */
export type Web = ReadonlyMap<string, File>
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
const screens = [/^\/$/, /^\/(?:new|inbox|usage|audit)$/, /^\/settings(?:\/[a-z-]{1,40})?$/, /^\/sessions\/ses_[0-9a-z]{16}$/]
const page = '/index.html'

export function readWeb(folder: string): Web {
  // A daemon that was not built, as in a unit test, has its API all the same.
  const names = existsSync(folder) ? readdirSync(folder, { recursive: true, encoding: 'utf8' }) : []
  const has = new Set(names)
  return new Map(
    names.flatMap((name): [string, File][] => {
      const type = types[/\.(\w+)$/.exec(name)?.[1] ?? '']
      if (type === undefined) return []
      return [
        [
          `/${name}`,
          { type, plain: once(join(folder, name)), brotli: has.has(`${name}.br`) ? once(join(folder, `${name}.br`)) : null },
        ],
      ]
    }),
  )
}

function once(path: string): () => Buffer {
  let read: Buffer | undefined
  return () => (read ??= readFileSync(path))
}

/** The file under an address, or null. A name with a hash in it never changes; every other is asked for anew. */
export function webAnswer(web: Web, pathname: string, accepts: string): Reply | null {
  const isScreen = screens.some((screen) => screen.test(pathname))
  const file = web.get(isScreen ? page : pathname)
  if (file === undefined || (!isScreen && pathname === page)) return null
  const brotli = /\bbr\b/.test(accepts) ? file.brotli : null
  return reply({
    text: (brotli ?? file.plain)(),
    headers: {
      'content-type': file.type,
      'cache-control': cacheFor(pathname, isScreen),
      vary: 'accept-encoding',
      ...(brotli === null ? {} : { 'content-encoding': 'br' }),
    },
  })
}

function cacheFor(pathname: string, isScreen: boolean): string {
  if (isScreen) return 'no-store'
  return pathname.startsWith('/assets/') ? 'public, max-age=31536000, immutable' : 'no-cache'
}
