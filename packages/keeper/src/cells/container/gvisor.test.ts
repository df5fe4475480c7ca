import { afterAll } from 'vitest'
import { cellContract } from '../contract.ts'
import { gvisorCells } from './container.ts'
import { describeWhereThere, foreignRootTests, testFiles } from './test-files.ts'

const files = testFiles()
afterAll(() => files[Symbol.dispose]())
const driver = gvisorCells(files)

await describeWhereThere(driver, () => {
  cellContract(driver, {
    'cannot make a file among the devices': "they are in gVisor's own memory, and runsc makes them writable",
  })
  foreignRootTests(driver)
})
