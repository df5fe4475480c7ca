import { Resolver } from 'node:dns/promises'
import { readFile } from 'node:fs/promises'

/** Every address that a name has now. Rejects when there is none, or when nobody says so in time. */
export type Resolve = (host: string, signal: AbortSignal) => Promise<readonly string[]>

export type ResolveOptions = {
  /** Whom to ask, each as `address:port`; the machine's own otherwise. */
  readonly servers?: readonly string[]
  readonly hostsPath?: string
  readonly timeoutMs?: number
}

/** What the machine's own hosts file says of a name, and otherwise what its name servers do. Not by getaddrinfo(3): that takes a
 *  thread for as long as a name server likes, and the gate writes its records by the same few threads. */
export function systemResolve({ servers, hostsPath = '/etc/hosts', timeoutMs = 2000 }: ResolveOptions = {}): Resolve {
  return async (host, signal) => {
    const listed = addressesIn(await readFile(hostsPath, 'utf8').catch(() => ''), host)
    if (listed.length > 0) return listed
    signal.throwIfAborted()
    // One for each name, so that ending one question ends no other.
    const resolver = new Resolver({ timeout: timeoutMs, tries: 2 })
    if (servers !== undefined) resolver.setServers(servers)
    const cancel = () => resolver.cancel()
    signal.addEventListener('abort', cancel, { once: true })
    try {
      const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)])
      const addresses = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
      if (addresses.length > 0) return addresses
      throw answers.find((answer) => answer.status === 'rejected')?.reason ?? new Error('it has no address')
    } finally {
      signal.removeEventListener('abort', cancel)
    }
  }
}

/** See hosts(5). */
function addressesIn(hosts: string, host: string): string[] {
  return hosts.split('\n').flatMap((line) => {
    const [address, ...names] = line.replace(/#.*/, '').trim().split(/\s+/)
    return address !== undefined && names.some((name) => name.toLowerCase() === host) ? [address] : []
  })
}
