package giveway.yarn;

import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.RecordReader;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.input.TextInputFormat;

/** Text input that delays the start of every map by {@code giveway.test.delay-ms}: makes a job long without using CPU. For yarn/e2e.sh only. */
public class DelayedTextInputFormat extends TextInputFormat {
  @Override
  public RecordReader<LongWritable, Text> createRecordReader(InputSplit split, TaskAttemptContext context) {
    try {
      Thread.sleep(context.getConfiguration().getInt("giveway.test.delay-ms", 0));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    return super.createRecordReader(split, context);
  }
}
