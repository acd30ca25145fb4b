package giveway.yarn;

import java.io.IOException;
import org.apache.hadoop.yarn.ams.ApplicationMasterServiceContext;
import org.apache.hadoop.yarn.ams.ApplicationMasterServiceProcessor;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateRequest;
import org.apache.hadoop.yarn.api.protocolrecords.AllocateResponse;
import org.apache.hadoop.yarn.api.protocolrecords.FinishApplicationMasterRequest;
import org.apache.hadoop.yarn.api.protocolrecords.FinishApplicationMasterResponse;
import org.apache.hadoop.yarn.api.protocolrecords.RegisterApplicationMasterRequest;
import org.apache.hadoop.yarn.api.protocolrecords.RegisterApplicationMasterResponse;
import org.apache.hadoop.yarn.api.records.ApplicationAttemptId;
import org.apache.hadoop.yarn.exceptions.YarnException;
import org.apache.hadoop.yarn.server.resourcemanager.RMContext;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.AbstractYarnScheduler;
import org.apache.hadoop.yarn.server.resourcemanager.scheduler.SchedulerApplicationAttempt;

/**
 * Listens to what application masters say: how far they are, and how they ended. It changes nothing of what passes by.
 *
 * <p>Set it in {@code yarn.resourcemanager.application-master-service.processors}. It is also what starts the bridge, for it is the one hook that is given
 * the ResourceManager's context.
 */
public class GivewayProcessor implements ApplicationMasterServiceProcessor {
  private ApplicationMasterServiceProcessor next;
  private RMContext context;

  @Override
  public void init(ApplicationMasterServiceContext service, ApplicationMasterServiceProcessor nextProcessor) {
    next = nextProcessor;
    try {
      context = (RMContext) service;
      Giveway.begin(context);
    } catch (Throwable t) {
      Giveway.trouble(t);
    }
  }

  @Override
  public void registerApplicationMaster(
      ApplicationAttemptId attempt, RegisterApplicationMasterRequest request, RegisterApplicationMasterResponse response)
      throws IOException, YarnException {
    next.registerApplicationMaster(attempt, request, response);
  }

  @Override
  public void allocate(ApplicationAttemptId attempt, AllocateRequest request, AllocateResponse response) throws YarnException {
    next.allocate(attempt, request, response);
    try {
      SchedulerApplicationAttempt app = ((AbstractYarnScheduler<?, ?>) context.getScheduler()).getApplicationAttempt(attempt);
      if (app != null) {
        Giveway.progressed(app, request.getProgress());
      }
    } catch (Throwable t) {
      Giveway.trouble(t);
    }
  }

  @Override
  public void finishApplicationMaster(
      ApplicationAttemptId attempt, FinishApplicationMasterRequest request, FinishApplicationMasterResponse response) {
    Giveway.ending(attempt.getApplicationId(), request.getFinalApplicationStatus());
    next.finishApplicationMaster(attempt, request, response);
  }
}
