import { createServer, type Socket } from 'node:net'
import { networkInterfaces } from 'node:os'
import { type Attack, judge } from './attack.ts'

const dial = `
  use Socket;
  for (@ARGV) {
    my ($address, $port) = split / /;
    my $six = $address =~ /:/;
    my $packed = Socket::inet_pton($six ? AF_INET6 : AF_INET, $address);
    my $to = $six ? Socket::pack_sockaddr_in6($port, $packed) : pack_sockaddr_in($port, $packed);
    for my $kind (SOCK_STREAM, SOCK_DGRAM) {
      my $s;
      my $through = socket($s, $six ? AF_INET6 : AF_INET, $kind, 0) && connect($s, $to) && ($kind == SOCK_STREAM || defined send($s, "x", 0));
      printf "%s %s\\n", $address, $through ? "REACHED" : "refused";
    }
  }`

/** Resolvers, a neighbour, cloud metadata, everybody, and the same in IPv6. */
const addresses = [
  ...['1.1.1.1 53', '8.8.8.8 443', '10.0.0.1 80', '172.17.0.1 80', '10.0.2.2 80', '255.255.255.255 67'],
  ...['169.254.169.254 80', '100.100.100.200 80', 'fd00:ec2::254 80', '2606:4700:4700::1111 53', 'fe80::1 80'],
]

export const network: Attack = {
  name: 'reach an address',
  promise: 'No address is reached: no IPv4, no IPv6, no DNS, no cloud metadata, no loopback and no abstract socket of the host’s',
  guard: 'a network namespace with a loopback of its own and nothing else, or a machine without a network card',
  async *run(on) {
    const under = await on.cell()
    const { lines: interfaces } = await under.sh('sed 1,2d /proc/net/dev | cut -d: -f1 | tr -d " "')
    yield judge('there is no interface but lo', interfaces, ['lo'])

    const own = Object.values(networkInterfaces())
      .flatMap((each) => each ?? [])
      .filter(({ internal }) => !internal)
      .map(({ address }) => `${address} 22`)
    const all = [...addresses, ...own]
    const { lines } = await under.perl(dial, ...all)
    yield judge(
      'no address outside answers, the host’s own included',
      lines,
      all.flatMap((each) => Array<string>(2).fill(`${each.split(' ')[0]} refused`)),
    )

    let visits = 0
    const count = (visitor: Socket) => {
      visits++
      // Whoever comes in may leave as it likes: it must not take the prover along.
      visitor.on('error', () => {}).end()
    }
    for (const host of ['127.0.0.1', '::1']) {
      await using server = createServer(count)
      await new Promise<void>((resolve, reject) => server.once('error', reject).listen(0, host, resolve)).catch(() => null)
      const address = server.address()
      if (address === null) continue // a host without IPv6
      const { port } = address as { port: number }
      const { lines } = await under.perl(dial, `${host} ${port}`)
      // A datagram to one's own loopback is always sent; the stream tells, and the server has the last word.
      yield judge(
        `a listener on the host’s loopback ${host}`,
        { answer: lines[0], visits },
        { answer: `${host} refused`, visits: 0 },
      )
    }

    const name = `anchorhold-attack-${process.pid}`
    await using abstract = createServer(count)
    await new Promise<void>((resolve) => abstract.listen(`\0${name}`, resolve))
    const connect = `use Socket; socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die; print connect($s, pack_sockaddr_un("\\0$ARGV[0]")) ? "REACHED" : "refused"`
    const { lines: answer } = await under.perl(connect, name)
    yield judge('an abstract unix socket of the host’s', { answer, visits }, { answer: ['refused'], visits: 0 })

    yield judge('a name', (await under.sh('getent hosts example.com || echo refused')).lines, ['refused'])
  },
}
