import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

export type Certificates = {
  /** The authority's own certificate: its text, and the file that it is in. */
  readonly ca: string
  readonly caPath: string
  readonly key: string
  readonly cert: string
}

/** An authority of the tests' own, and one certificate of it for all these hosts. */
export function certificatesFor(folder: string, hosts: readonly string[]): Certificates {
  const at = (name: string) => join(folder, name)
  const openssl = (...args: string[]) => execFileSync('openssl', args, { stdio: 'ignore' })
  const ec = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  openssl(
    ...[
      'req',
      '-x509',
      ...ec,
      '-days',
      '2',
      '-subj',
      '/CN=authority of the tests',
      '-keyout',
      at('ca.key'),
      '-out',
      at('ca.pem'),
    ],
    ...['-addext', 'basicConstraints=critical,CA:TRUE', '-addext', 'keyUsage=critical,keyCertSign,cRLSign'],
  )
  openssl('req', ...ec, '-subj', '/CN=registries', '-keyout', at('leaf.key'), '-out', at('leaf.csr'))
  const names = hosts.map((host) => `DNS:${host}`).join(',')
  writeFileSync(at('leaf.ext'), `basicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\nsubjectAltName=${names}\n`)
  openssl(
    ...['x509', '-req', '-in', at('leaf.csr'), '-CA', at('ca.pem'), '-CAkey', at('ca.key'), '-CAcreateserial', '-days', '2'],
    ...['-extfile', at('leaf.ext'), '-out', at('leaf.pem')],
  )
  const read = (name: string) => readFileSync(at(name), 'utf8')
  return { ca: read('ca.pem'), caPath: at('ca.pem'), key: read('leaf.key'), cert: read('leaf.pem') }
}
