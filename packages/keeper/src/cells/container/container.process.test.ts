import { cellContract } from '../contract.ts'
import { containerCells } from './container.ts'
import { channelTests, describeWhereThere, endsAtOnceTests, foreignRootTests, testFiles } from './test-files.ts'

const files = testFiles()
const driver = containerCells(files)

await describeWhereThere(driver, () => {
  cellContract(driver)
  foreignRootTests(driver)
  channelTests(driver)
  endsAtOnceTests(containerCells)
})
