import { createServer } from 'node:net'
import { networkInterfaces } from 'node:os'
import { expect, test } from 'vitest'
import { attack, cellUnderAttack } from './cell-under-attack.ts'

const dial = `
  use Socket;
  for (@ARGV) {
    my ($address, $port) = split / /;
    my $six = $address =~ /:/;
    my $packed = Socket::inet_pton($six ? AF_INET6 : AF_INET, $address);
    my $to = $six ? Socket::pack_sockaddr_in6($port, $packed) : pack_sockaddr_in($port, $packed);
    for my $kind (SOCK_STREAM, SOCK_DGRAM) {
      socket(my $s, $six ? AF_INET6 : AF_INET, $kind, 0) or die "no socket: $!";
      my $through = connect($s, $to) && ($kind == SOCK_STREAM || defined send($s, "x", 0));
      printf "%s %s\\n", $address, $through ? "REACHED" : "refused";
    }
  }`

attack('the network', (driver) => {
  test('has no interface but lo', async () => {
    await using under = await cellUnderAttack(driver)
    const { lines } = await under.sh('sed 1,2d /proc/net/dev | cut -d: -f1 | tr -d " "')
    expect(lines).toEqual(['lo'])
  })

  test('cannot reach any address outside', async () => {
    await using under = await cellUnderAttack(driver)
    const addresses = [
      '1.1.1.1 53',
      '8.8.8.8 443',
      '10.0.0.1 80',
      '169.254.169.254 80',
      '255.255.255.255 67',
      '2606:4700:4700::1111 53',
      'fe80::1 80',
    ]
    const own = Object.values(networkInterfaces())
      .flatMap((each) => each ?? [])
      .filter(({ internal }) => !internal)
      .map(({ address }) => `${address} 22`)
    const { lines } = await under.perl(dial, ...addresses, ...own)
    expect(lines).toEqual([...addresses, ...own].flatMap((each) => Array<string>(2).fill(`${each.split(' ')[0]} refused`)))
  })

  test("cannot reach a listener on the host's loopback", async () => {
    let visits = 0
    await using server = createServer((socket) => socket.end(`${++visits}`))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as { port: number }
    await using under = await cellUnderAttack(driver)
    const tcp = `use Socket; socket(my $s, AF_INET, SOCK_STREAM, 0); print connect($s, pack_sockaddr_in($ARGV[0], inet_aton("127.0.0.1"))) ? "REACHED" : "refused"`
    expect((await under.perl(tcp, String(port))).lines).toEqual(['refused'])
    expect(visits).toBe(0)
  })

  test('cannot reach an abstract unix socket of the host', async () => {
    const name = `anchorhold-attack-${process.pid}`
    await using server = createServer((socket) => socket.end('reached'))
    await new Promise<void>((resolve) => server.listen(`\0${name}`, resolve))
    await using under = await cellUnderAttack(driver)
    const abstract = `use Socket; socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die; print connect($s, pack_sockaddr_un("\\0$ARGV[0]")) ? "REACHED" : "refused"`
    expect((await under.perl(abstract, name)).lines).toEqual(['refused'])
  })

  test('cannot resolve a name', async () => {
    await using under = await cellUnderAttack(driver)
    expect((await under.sh('getent hosts example.com || echo refused')).lines).toEqual(['refused'])
  })
})
