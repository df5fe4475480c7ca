import { Failure } from '@anchorhold/protocol/failures'
import { ImageName } from '@anchorhold/protocol/sessions'
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { path } from '../flags/values.ts'
import { fromHere } from '../here.ts'
import type { Made } from '../images/images.ts'
import { ago, table } from '../terminal.ts'

export function image(program: Command, context: Context): void {
  const { terminal } = context
  const command = program.command('image').summary('root file systems for containers and machines')
  const open = async () => {
    const { images } = (await import(new URL('./images.mjs', import.meta.url).href)) as typeof import('../images/images.ts')
    return images(context.where().moved ? context.where().state : undefined)
  }
  /** On a terminal the step that is being done, elsewhere a line for each. */
  const say = (step: string) => (terminal.interactive ? terminal.spin(step) : terminal.error(terminal.foreign(step)))

  command
    .command('build')
    .summary('build an image from Debian packages, without any registry')
    .description(
      'Builds an image from the package sources of this machine, and boots a machine of it once where QEMU is installed. What is there already from the same recipe stays.',
    )
    .option('--variant <name>', 'base, or dev for a JDK and Podman as well', 'base')
    .option('--from <path>', 'take this folder or archive for it, instead of building', path)
    .option('--json', 'as JSON')
    .action(async (options: { variant: string; from?: string; json?: true }) => {
      const all = await open()
      const name = nameOf(options.variant)
      const made = options.from === undefined ? await all.build(name, say) : await all.add(name, fromHere(options.from), say)
      tell(made, options.json)
    })
  command
    .command('add')
    .summary('add an image of your own')
    .description('Takes the folder or the tar of a root file system, or an archive that docker save or podman save wrote.')
    .argument('<name>')
    .requiredOption('--from <path>', 'the folder or archive', path)
    .option('--json', 'as JSON')
    .action(async (name: string, options: { from: string; json?: true }) => {
      const all = await open()
      tell(await all.add(nameOf(name), fromHere(options.from), say), options.json)
    })
  command
    .command('ls')
    .summary('list images')
    .option('--json', 'as JSON')
    .action(async (options: { json?: true }) => {
      const all = await open()
      const images = all.list()
      if (options.json) return terminal.line(JSON.stringify(images))
      if (images.length === 0) return terminal.line('There is no image yet: anchorhold image build')
      for (const row of table(
        images.map((one) => [
          one.name,
          one.digest,
          `made ${ago(one.madeAt)}`,
          [...(all.hasMachine(one) ? ['for machines as well'] : []), ...(one.inUse ? [] : ['replaced by a newer one'])].join(
            ', ',
          ),
        ]),
      ))
        terminal.line(row)
    })
  command
    .command('rm')
    .summary('remove an image; sessions that run it lose their programs')
    .argument('<name>')
    .action(async (name: string) => {
      const all = await open()
      await all.remove(name)
      terminal.line(`${name} is removed.`)
    })

  function tell({ image: made, fresh, lacks }: Made, json: true | undefined): void {
    if (json) return terminal.line(JSON.stringify({ ...made, fresh, lacks }))
    terminal.line(`${terminal.style('green', '✓')} ${made.name} ${made.digest}${fresh ? '' : ' was there already'}`)
    for (const { what, remedy } of lacks)
      terminal.line(`  No machines of it: ${what}\n  to fix it: ${terminal.style('bold', remedy)}, then build again`)
  }
}

function nameOf(text: string): string {
  const parsed = ImageName.safeParse(text)
  if (!parsed.success)
    throw new Failure('bad_request', `"${text}" is not a name for an image`, {
      hint: 'Small letters, digits and dashes: my-image',
    })
  return parsed.data
}
