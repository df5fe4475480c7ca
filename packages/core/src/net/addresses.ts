/** An address as its four or sixteen bytes. */
export type Address = readonly number[]

/** Who is there: everybody's network, the owner's own, or what no cell is ever led to, whatever a rule says. */
export type AddressKind = 'public' | 'own' | 'never'

/** The longest spelling that there is, of an IPv6 address that ends in an IPv4 one. */
const charsMax = 45

/** Reads an address that is written in the one way of writing it: four decimal numbers, or the groups of RFC 4291 without a zone.
 *  Null for everything else, also for what other parsers take for an address. */
export function parseAddress(text: string): Address | null {
  if (text.length > charsMax) return null
  return text.includes(':') ? parseIpv6(text) : parseIpv4(text)
}

function parseIpv4(text: string): Address | null {
  const parts = text.split('.')
  if (parts.length !== 4 || !parts.every((part) => /^(0|[1-9]\d{0,2})$/.test(part))) return null
  const bytes = parts.map(Number)
  return bytes.every((byte) => byte <= 255) ? bytes : null
}

function parseIpv6(text: string): Address | null {
  const halves = text.split('::')
  if (halves.length > 2) return null
  const parsed = halves.map((half, at) => bytesOf(half, at === halves.length - 1))
  const [head, tail] = parsed
  if (head === undefined || head === null || tail === null) return null
  if (tail === undefined) return head.length === 16 ? head : null
  // The two colons stand for one group at least.
  const missing = 16 - head.length - tail.length
  return missing < 2 ? null : [...head, ...Array.from({ length: missing }, () => 0), ...tail]
}

/** The bytes of groups with single colons between them; only what is last may end in an IPv4 address. */
function bytesOf(half: string, isLast: boolean): number[] | null {
  if (half === '') return []
  const groups = half.split(':')
  const bytes: number[] = []
  for (const [at, group] of groups.entries()) {
    if (isLast && at === groups.length - 1 && group.includes('.')) {
      const embedded = parseIpv4(group)
      if (embedded === null) return null
      bytes.push(...embedded)
    } else if (/^[0-9a-f]{1,4}$/i.test(group)) {
      const value = Number.parseInt(group, 16)
      bytes.push(value >> 8, value & 0xff)
    } else return null
  }
  return bytes.length > 16 ? null : bytes
}

/** The one text of an address: as RFC 5952 writes it, without brackets. */
export function formatAddress(address: Address): string {
  if (address.length === 4) return address.join('.')
  const groups = Array.from({ length: 8 }, (_, at) => (address[at * 2]! << 8) | address[at * 2 + 1]!)
  let longest = { at: 0, length: 0 }
  for (let at = 0; at < 8; at++) {
    let length = 0
    while (at + length < 8 && groups[at + length] === 0) length++
    if (length > longest.length) longest = { at, length }
    at += length
  }
  const text = (from: number, to?: number) =>
    groups
      .slice(from, to)
      .map((group) => group.toString(16))
      .join(':')
  if (longest.length < 2) return text(0)
  return `${text(0, longest.at)}::${text(longest.at + longest.length)}`
}

/** Without a rule that opens this one place by name, a cell is led to what is `public` alone.
 *  Invariant: an address that carries another inside it is never better than that one.
 *  Does not stop: a translator (NAT64) with a prefix of the network's own, which cannot be told from other addresses. */
export function addressKind(address: Address): AddressKind {
  return address.length === 4 ? ipv4Kind(address) : ipv6Kind(address)
}

const ipv4Kind = (address: Address): AddressKind => ipv4Table.find((range) => isIn(range, address))?.kind ?? 'public'

function ipv6Kind(address: Address): AddressKind {
  const found = ipv6Table.find((range) => isIn(range, address))
  if (found === undefined) return 'never'
  if (found.kind !== 'public') return found.kind
  const carried = isIn(nat64, address) || isIsatap(address)
  return carried && ipv4Kind(address.slice(12)) !== 'public' ? 'never' : 'public'
}

type Range = { readonly prefix: Address; readonly bits: number; readonly kind: AddressKind }

function isIn({ prefix, bits }: Range, address: Address): boolean {
  const whole = bits >> 3
  for (let at = 0; at < whole; at++) if (prefix[at] !== address[at]) return false
  const rest = bits & 7
  return rest === 0 || ((prefix[whole]! ^ address[whole]!) & (0xff << (8 - rest))) === 0
}

function ranges(kind: AddressKind, ...texts: readonly string[]): Range[] {
  return texts.map((text) => {
    const [address = '', bits] = text.split('/')
    const prefix = parseAddress(address)
    if (prefix === null) throw new Error(`"${text}" is not a range`)
    return { prefix, bits: bits === undefined ? prefix.length * 8 : Number(bits), kind }
  })
}

/** The first that holds the address decides; what none holds is public. See the registries of RFC 6890. */
const ipv4Table: readonly Range[] = [
  // Where clouds tell a machine its secrets, in ranges that are otherwise the owner's own, or everybody's.
  ...ranges('never', '100.100.100.200', '168.63.129.16'),
  // Loopback, private, and shared by a carrier's customers.
  ...ranges('own', '127.0.0.0/8', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10'),
  // This network; link-local, where most clouds have that; protocol assignments.
  ...ranges('never', '0.0.0.0/8', '169.254.0.0/16', '192.0.0.0/24'),
  // Documentation, benchmarking, relays and sinks.
  ...ranges('never', '192.0.2.0/24', '198.51.100.0/24', '203.0.113.0/24', '198.18.0.0/15'),
  ...ranges('never', '192.31.196.0/24', '192.52.193.0/24', '192.88.99.0/24', '192.175.48.0/24'),
  // Multicast; reserved and broadcast.
  ...ranges('never', '224.0.0.0/4', '240.0.0.0/4'),
]

/** The first that holds the address decides; what none holds is refused, so that a form which nobody thought of is too: an IPv4
 *  address mapped, compatible or translated, link-local, site-local, multicast, `::`. */
const ipv6Table: readonly Range[] = [
  ...ranges('never', 'fd00:ec2::/32', 'fd20:ce::/32'),
  ...ranges('own', '::1', 'fc00::/7'),
  // Teredo, ORCHID, benchmarking and other assignments of protocols; documentation; 6to4; the 6bone; a sink.
  ...ranges('never', '2001::/23', '2001:db8::/32', '3fff::/20', '2002::/16', '3ffe::/16', '2620:4f:8000::/48'),
  ...ranges('public', '2000::/3', '64:ff9b::/96'),
]

const nat64 = ranges('public', '64:ff9b::/96')[0]!

/** The interface of RFC 5214, whose last four bytes are an IPv4 address. */
const isIsatap = (address: Address): boolean =>
  (address[8]! & 0xfd) === 0 && address[9] === 0 && address[10] === 0x5e && address[11] === 0xfe
