import { realpath, writeFile } from 'node:fs/promises'
import { readFound } from '@anchorhold/link/found-file'
import { join } from 'node:path'
import { rootCertificates } from 'node:tls'
import type { KeeperStart } from '@anchorhold/protocol/keeper-start'

/** Whom programs in a cell trust: those whom they would anyway, and the session's own authority, by which the net window opens TLS.
 *  It lies in a folder of the session's that cells see and cannot change. */
export const trustFolder = (sessionFolder: string) => `${sessionFolder}/trust`
export const trustInside = '/opt/anchorhold/trust'

/** All of them together. */
export const trustFile = 'all.pem'
const files = { all: trustFile, added: 'added.pem' } as const

export async function writeTrust(
  { folder, root }: Pick<KeeperStart['place'], 'folder' | 'root'>,
  net_ca: string | null,
): Promise<void> {
  const added = net_ca ?? ''
  const at = (name: string) => `${trustFolder(folder)}/${name}`
  await Promise.all([
    writeFile(at(files.added), added, { mode: 0o644 }),
    writeFile(at(files.all), `${await usualRoots(root)}\n${added}`, { mode: 0o644 }),
  ])
}

/** What each program looks at, and not all look at the same. What replaces a program's own list gets the whole one. */
export function trustEnvironment(folder: string): Readonly<Record<string, string>> {
  const [all, added] = [`${folder}/${files.all}`, `${folder}/${files.added}`]
  return {
    SSL_CERT_FILE: all,
    CURL_CA_BUNDLE: all,
    GIT_SSL_CAINFO: all,
    REQUESTS_CA_BUNDLE: all,
    PIP_CERT: all,
    CARGO_HTTP_CAINFO: all,
    npm_config_cafile: all,
    YARN_HTTPS_CA_FILE_PATH: all,
    AWS_CA_BUNDLE: all,
    BUNDLE_SSL_CA_CERT: all,
    COMPOSER_CAFILE: all,
    GRPC_DEFAULT_SSL_ROOTS_FILE_PATH: all,
    NIX_SSL_CERT_FILE: all,
    NODE_EXTRA_CA_CERTS: added,
    DENO_CERT: added,
  }
}

/** Those of a distribution have a few hundred kilobytes. */
const rootsBytesMax = 16 * 1024 * 1024

/** Where distributions keep them. */
const places = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/ca-bundle.pem',
  '/etc/ssl/cert.pem',
]

/** Those of the cell's own root, as far as they can be read without leaving it; else the host's; else those that Node knows. */
async function usualRoots(root: string | null): Promise<string> {
  for (const top of root === null ? ['/'] : [root, '/']) {
    for (const place of places) {
      const found = await readBelow(top, place).catch(() => null)
      if (found?.includes('-----BEGIN CERTIFICATE-----') === true) return found
    }
  }
  return rootCertificates.join('\n')
}

/** An image is somebody else's: a link in it that leads out of it is not followed. */
async function readBelow(top: string, path: string): Promise<string | null> {
  const [within, real] = await Promise.all([realpath(top), realpath(join(top, path))])
  if (within !== '/' && !real.startsWith(`${within}/`)) return null
  return readFound(real, rootsBytesMax, within === '/' ? {} : { below: within })
}
