import { once } from 'node:events'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { certificatesFor } from './certificates.ts'
import type { Asked, Registry, SeenCall } from './registry.ts'

export interface Registries extends AsyncDisposable {
  /** The authority that its certificate is from. */
  readonly ca: string
  readonly caPath: string
  /** Every call, in order. */
  readonly seen: SeenCall[]
  /** `mirrors:` of a config.yaml, so that the real names lead here. */
  readonly mirrors: string
}

/** One server over TLS for all of these, each under the names that it has in the world. */
export async function serveRegistries(scratch: string, registries: readonly Registry[]): Promise<Registries> {
  const hosts = registries.flatMap((one) => one.hosts)
  const { ca, caPath, key, cert } = certificatesFor(scratch, hosts)
  const seen: SeenCall[] = []
  const server = createServer({ key, cert }, (request, response) => {
    const { pathname, search } = new URL(request.url ?? '/', 'https://x')
    const host = (request.headers.host ?? '').replace(/:443$/, '')
    const asked: Asked = { host, method: request.method ?? '', path: decodeURIComponent(pathname), query: search.slice(1) }
    seen.push({ ...asked, authorization: request.headers.authorization ?? null })
    const registry = registries.find((one) => one.hosts.includes(host))
    if (registry === undefined) return void response.writeHead(421).end()
    void Promise.resolve(registry.answer(asked, request, response)).catch(() => response.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    ca,
    caPath,
    seen,
    mirrors: `mirrors:\n${hosts.map((host) => `  ${host}: "127.0.0.1:${port}"\n`).join('')}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
    },
  }
}
