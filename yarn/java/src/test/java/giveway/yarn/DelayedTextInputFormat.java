package giveway.yarn;

import org.apache.hadoop.io.LongWritable;
import org.apache.hadoop.io.Text;
import org.apache.hadoop.mapreduce.InputSplit;
import org.apache.hadoop.mapreduce.RecordReader;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.input.TextInputFormat;

/** Lines of text that let each map wait for them: so a job is long without keeping a small machine busy. For yarn/e2e.sh only. */
public class SlowInput extends TextInputFormat {
  @Override
  public RecordReader<LongWritable, Text> createRecordReader(InputSplit split, TaskAttemptContext context) {
    try {
      Thread.sleep(context.getConfiguration().getInt("slow.ms", 0));
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    return super.createRecordReader(split, context);
  }
}
