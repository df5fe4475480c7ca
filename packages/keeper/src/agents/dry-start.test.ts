import { expect, test } from 'vitest'
import { claudeDriver } from './claude/claude.ts'
import { dryStart } from './dry-start.ts'

test('dryStart() starts an agent by its own driver, and ends it', async () => {
  const seen: string[] = []
  await dryStart({
    ...claudeDriver,
    async start(options) {
      const { spawn } = options.cell
      const cell = {
        ...options.cell,
        spawn: (...given: Parameters<typeof spawn>) => (seen.push(given[0].join(' ')), spawn(...given)),
      }
      const agent = await claudeDriver.start({ ...options, cell })
      return {
        ...agent,
        async [Symbol.asyncDispose]() {
          await agent[Symbol.asyncDispose]()
          seen.push('ended')
        },
      }
    },
  })
  expect(seen).toEqual([expect.stringContaining('/agent --output-format'), 'ended'])
})
